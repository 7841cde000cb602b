package dispatch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/millrace/millrace/informer/internal/signal"
	"github.com/millrace/millrace/informer/internal/state"
)

// Errors with which a follower leaves.
var (
	ErrStopped = errors.New("informer has stopped")
	ErrClosed  = errors.New("handler has left")
)

// Options connect a dispatcher to its informer.
type Options[T any] struct {
	// Synced is closed when the first list is in the cache.
	Synced <-chan struct{}
	// Copy returns a copy of the cache's table. It calls the function at the moment that the copy shows.
	Copy func(atThatMoment func()) *state.Table[T]
	// Batch returns how many changes a follower is told of before it is another's turn.
	Batch func() int
	// Idle is called when the followers that keep up have been told everything.
	Idle func()
	// Unused is called when the last follower of a running dispatcher has left.
	Unused func()
	// Resync is how often followers that do not say otherwise are told of every object.
	Resync time.Duration
}

// Dispatcher passes recorded changes to followers. It calls none before Start.
type Dispatcher[T any] struct {
	options Options[T]
	shared  sharedLoop[T]
	running sync.WaitGroup // counts the goroutines that call followers
	news    signal.Signal  // changes have been announced

	mu          sync.Mutex                // the informer's lock comes before it
	tail        *Change[T]                // guarded by mu: the newest change
	count       uint64                    // guarded by mu: how many changes there have been
	unannounced uint64                    // guarded by mu: changes that nobody has been woken for
	unchecked   uint64                    // guarded by mu: changes since the last search for followers that lag
	followers   map[*Follower[T]]struct{} // guarded by mu
	started     bool                      // guarded by mu
	stopped     bool                      // guarded by mu
}

// laggingAfter is how many changes a follower may be behind, in an informer with few objects, before they are merged on
// its behalf.
const laggingAfter = 1024

// New returns a dispatcher without followers.
func New[T any](options Options[T]) *Dispatcher[T] {
	d := &Dispatcher[T]{options: options, tail: &Change[T]{}, followers: map[*Follower[T]]struct{}{}}
	d.shared.owner = d
	return d
}

// Add lets a receiver follow. It is told every object once in resync; zero means as the options say, negative never. The
// function makes the receiver; the context ends when the follower is to leave. If the dispatcher has stopped, the
// follower has left from the start.
func (d *Dispatcher[T]) Add(resync time.Duration, receiver func(leaving context.Context) Receiver[T]) *Follower[T] {
	if resync == 0 {
		resync = d.options.Resync
	}
	leaving, leave := context.WithCancelCause(context.Background())
	f := &Follower[T]{
		owner: d, to: receiver(leaving), resyncPeriod: resync, leaving: leaving, leave: leave,
		synced: make(chan struct{}), done: make(chan struct{}),
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped {
		leave(ErrStopped)
		close(f.done)
		return f
	}
	d.followers[f] = struct{}{}
	if d.started {
		d.running.Go(f.run)
	}
	return f
}

// Start begins to call followers.
func (d *Dispatcher[T]) Start() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.started = true
	for f := range d.followers {
		d.running.Go(f.run)
	}
}

// Stop lets all followers leave and returns when none is being called.
func (d *Dispatcher[T]) Stop() {
	d.mu.Lock()
	d.stopped = true
	leaving := d.followers
	d.followers = map[*Follower[T]]struct{}{}
	d.mu.Unlock()
	for f := range leaving {
		f.leave(ErrStopped)
	}
	d.shared.stop()
	d.running.Wait()
}

// remove forgets a follower that leaves.
func (d *Dispatcher[T]) remove(f *Follower[T]) {
	d.mu.Lock()
	if _, member := d.followers[f]; !member {
		d.mu.Unlock()
		return
	}
	delete(d.followers, f)
	unused := d.started && len(d.followers) == 0
	if !d.started {
		close(f.done)
	}
	d.mu.Unlock()
	if unused {
		d.options.Unused()
	}
}

// Record appends changes. Nobody is woken for them before Announce. The caller holds the informer's lock, so that their
// order is that of the cache.
func (d *Dispatcher[T]) Record(changes *Changes[T]) {
	if changes.First == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tail.next.Store(changes.First)
	d.tail = changes.last
	d.count += changes.length
	d.unannounced += changes.length
}

// Announce wakes followers for what has been recorded. Of those that are far behind, in a cache with so many objects, it
// merges what waits.
func (d *Dispatcher[T]) Announce(objects int) {
	d.mu.Lock()
	news := d.unannounced > 0
	d.unchecked += d.unannounced
	d.unannounced = 0
	var lagging []*Follower[T]
	if d.unchecked >= laggingAfter {
		d.unchecked = 0
		lagging = d.laggingLocked(uint64(max(laggingAfter, objects)))
	}
	d.mu.Unlock()
	if news {
		d.news.Raise()
	}
	for _, f := range lagging {
		f.merge()
	}
}

func (d *Dispatcher[T]) laggingLocked(limit uint64) []*Follower[T] {
	var lagging []*Follower[T]
	for f := range d.followers {
		if d.count-f.delivered.Load() > limit {
			lagging = append(lagging, f)
		}
	}
	return lagging
}

// position returns the newest change and how many there have been.
func (d *Dispatcher[T]) position() (tail *Change[T], count uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tail, d.count
}
