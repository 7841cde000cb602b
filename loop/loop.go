package loop

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace/millrace/cause"
	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/sleep"
	"github.com/millrace/millrace/queue"
)

// Key is the namespace and name of an object.
type Key = informer.Key

// Result is what a successful Sync asks for.
type Result struct {
	// After, if positive, is when the key is synced again even if nothing changes.
	After time.Duration
}

// Loop brings the actual state in line with the desired state, key by key. Its fields must not be changed after Run was
// called.
type Loop struct {
	// Name labels logs and metrics.
	Name string
	// Clients provide logger and metrics; nil means neither.
	Clients *Clients
	// Workers is how many keys are synced at the same time, unless Clients.Workers says another number. 0 means 1.
	Workers int
	// Sync handles one key. See the errors of this package for what it may return. It is called when the caches show
	// what the previous Sync of the key has written with a [Writer], or has noted with [Wrote] and [Removed].
	Sync func(ctx context.Context, key Key) (Result, error)
	// Watches select the keys to sync, and name the caches that Sync reads.
	Watches []Watch
	// Start has keys that are synced once at the start.
	Start []Key
	// Queue has the rate limits. Name, metrics and logging are set by the loop.
	Queue queue.Options[Key]

	once   sync.Once
	queue  *queue.Queue[Key]
	writes writes
	warned warnings
}

// Add schedules a Sync of key.
func (l *Loop) Add(key Key) { l.keys().Add(key) }

// AddAfter schedules a Sync of key after delay.
func (l *Loop) AddAfter(key Key, delay time.Duration) { l.keys().AddAfter(key, delay) }

// AddBecause schedules a Sync of key because of a change, which is kept with what the Sync writes. Watches do this.
func (l *Loop) AddBecause(key Key, change cause.Change) { l.keys().AddBecause(key, change) }

// AddBecauseAfter schedules a Sync of key because of a change, after a delay in which more changes may come. Whatever
// wakes the key earlier has the change among its causes, too.
func (l *Loop) AddBecauseAfter(key Key, change cause.Change, delay time.Duration) {
	l.keys().AddBecauseAfter(key, change, delay)
}

// AddSaying schedules a Sync of key because of something that is no change of an object, which is said in words.
func (l *Loop) AddSaying(key Key, what string) { l.keys().AddSaying(key, what) }

// adding returns how a watch wakes the loop.
func (l *Loop) adding(pace func(Key) time.Duration) func(Key, cause.Change) {
	if pace == nil {
		return l.AddBecause
	}
	return func(key Key, change cause.Change) { l.AddBecauseAfter(key, change, pace(key)) }
}

// Run watches and syncs keys until ctx ends.
func (l *Loop) Run(ctx context.Context) error {
	workers := l.Clients.WorkersOf(l.Name, l.Workers)
	for _, watch := range l.Watches {
		following := watch.follow(l.adding(watch.pace))
		defer func() {
			following.Close()
			<-following.Done()
		}()
		if !l.wait(ctx, following) {
			return nil
		}
	}
	for _, key := range l.Start {
		l.AddSaying(key, "the loop has begun")
	}
	l.log().InfoContext(ctx, "loop runs", "loop", l.Name)
	_ = l.keys().Run(ctx, workers, l.sync) // the error is the cause of ctx, which is no failure
	return nil
}

// fillTimeout is how long a cache may take to fill before a warning is logged.
const fillTimeout = 10 * time.Second

// wait waits until a watch has delivered the initial state, and logs regularly what it waits for. It returns false if
// ctx ends first.
func (l *Loop) wait(ctx context.Context, following following) bool {
	for ctx.Err() == nil {
		attempt, cancel := context.WithTimeout(ctx, fillTimeout)
		err := following.Synced(attempt)
		cancel()
		if err == nil {
			return true
		}
		if ctx.Err() == nil {
			l.log().WarnContext(ctx, "loop is waiting for a cache to fill", "loop", l.Name, "err", err)
			if attempt.Err() == nil { // it failed early: avoid a busy loop
				sleep.For(ctx, fillTimeout)
			}
		}
	}
	return false
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
