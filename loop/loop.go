package loop

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/queue"
)

// Key names an object among those of its kind.
type Key = informer.Key

// Result is what a Sync that succeeded wants next.
type Result struct {
	// After, if positive, is the time after which the key is synced again
	// even if nothing changes.
	After time.Duration
}

// Loop brings the actual state towards the declared one, key by key. Its
// fields are set before Run and not changed afterwards.
type Loop struct {
	// Name labels logs and metrics.
	Name string
	// Clients give the loop its logger and metrics; nil means neither.
	Clients *Clients
	// Workers is how many keys are synced at a time. 0 means 1.
	Workers int
	// Sync brings one key in order. See the errors of this package for what
	// it may return. It is called when the caches show what the last Sync of
	// the key has written by Writers.
	Sync func(ctx context.Context, key Key) (Result, error)
	// Watches are what wakes the loop, and the caches it reads.
	Watches []Watch
	// Start are keys that are synced once at the start, whatever happens.
	Start []Key
	// Queue has the rate limits. Name, metrics and logging are filled in.
	Queue queue.Options[Key]

	once   sync.Once
	queue  *queue.Queue[Key]
	writes Writes // those of Writers, by key
}

// Add asks for a Sync of key.
func (l *Loop) Add(key Key) { l.keys().Add(key) }

// AddAfter asks for a Sync of key once delay has passed.
func (l *Loop) AddAfter(key Key, delay time.Duration) { l.keys().AddAfter(key, delay) }

// Run follows the watches and syncs keys until ctx ends.
func (l *Loop) Run(ctx context.Context) error {
	for _, watch := range l.Watches {
		following := watch.follow(l.Add)
		defer func() {
			following.Close()
			<-following.Done()
		}()
		if !l.wait(ctx, following) {
			return nil
		}
	}
	for _, key := range l.Start {
		l.Add(key)
	}
	l.log().InfoContext(ctx, "loop runs", "loop", l.Name)
	_ = l.keys().Run(ctx, l.Workers, l.sync) // the cause of ctx, which is no failure of ours
	return nil
}

// fillTimeout is how long a cache may take to fill before the log says so.
const fillTimeout = 10 * time.Second

// wait waits until what is followed has been told in full, and says from time
// to time what it waits for. It is false if ctx ended first.
func (l *Loop) wait(ctx context.Context, following following) bool {
	for ctx.Err() == nil {
		attempt, cancel := context.WithTimeout(ctx, fillTimeout)
		err := following.Synced(attempt)
		cancel()
		if err == nil {
			return true
		}
		if ctx.Err() == nil {
			l.log().WarnContext(ctx, "loop waits for a cache to fill", "loop", l.Name, "err", err)
			if attempt.Err() == nil { // it failed before its time: do not spin
				pause(ctx, fillTimeout)
			}
		}
	}
	return false
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (l *Loop) keys() *queue.Queue[Key] {
	l.once.Do(func() {
		opts := l.Queue
		opts.Name = cmp.Or(opts.Name, l.Name)
		if opts.OnError == nil {
			opts.OnError = l.report
		}
		if opts.Metrics == nil && l.Clients != nil {
			opts.Metrics = l.Clients.Metrics
		}
		l.queue = queue.New(opts)
	})
	return l.queue
}

func (l *Loop) log() *slog.Logger { return l.Clients.log() }
