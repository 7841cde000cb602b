package dispatch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/millrace/millrace/informer/internal/signal"
	"github.com/millrace/millrace/informer/internal/state"
)

// Errors with which a follower ends.
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
	// Batch returns how many changes one follower receives before the next follower is called.
	Batch func() int
	// Idle is called when all followers in the shared loop have received everything.
	Idle func()
	// Unused is called when the last follower of a running dispatcher has been closed.
	Unused func()
	// Resync is the default interval at which a follower is told of every object again.
	Resync time.Duration
}

// Dispatcher passes recorded changes to followers. It calls none before Start.
type Dispatcher[T any] struct {
	options   Options[T]
	shared    sharedLoop[T]
	running   sync.WaitGroup // counts the goroutines that call followers
	announced signal.Signal  // raised when changes have been announced

	mu          sync.Mutex                // the informer's lock comes before it
	tail        *Change[T]                // guarded by mu: the newest change
	count       uint64                    // guarded by mu: how many changes there have been
	unannounced uint64                    // guarded by mu: changes that have not been announced
	unchecked   uint64                    // guarded by mu: changes since the last search for followers that lag
	followers   map[*Follower[T]]struct{} // guarded by mu
	started     bool                      // guarded by mu
	stopped     bool                      // guarded by mu
}

// laggingAfter is how many changes a follower may be behind, in an informer with few objects, before the dispatcher
// merges them for it.
const laggingAfter = 1024

// New returns a dispatcher without followers.
func New[T any](options Options[T]) *Dispatcher[T] {
	d := &Dispatcher[T]{options: options, tail: &Change[T]{}, followers: map[*Follower[T]]struct{}{}}
	d.shared.owner = d
	return d
}

// Add adds a follower with the receiver that the function makes. The function's context ends when the follower is
// closed. The receiver is told of every object once in each resync interval; zero means Options.Resync, negative never.
// If the dispatcher has stopped, the follower is closed from the start.
func (d *Dispatcher[T]) Add(resync time.Duration, receiver func(leaving context.Context) Receiver[T]) *Follower[T] {
	if resync == 0 {
		resync = d.options.Resync
	}
	leaving, leave := context.WithCancelCause(context.Background())
	f := &Follower[T]{
		owner: d, receiver: receiver(leaving), resyncPeriod: resync, leaving: leaving, leave: leave,
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

// Stop closes all followers and returns when no receiver is being called.
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

// remove removes a follower that is being closed.
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

// Record appends changes. Followers are woken by Announce. The caller holds the informer's lock, so the changes have
// the order of the cache.
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

// Announce wakes followers for the recorded changes. If a follower is far behind, for a cache with so many objects, its
// waiting changes are merged.
func (d *Dispatcher[T]) Announce(objects int) {
	d.mu.Lock()
	announced := d.unannounced > 0
	d.unchecked += d.unannounced
	d.unannounced = 0
	var lagging []*Follower[T]
	if d.unchecked >= laggingAfter {
		d.unchecked = 0
		lagging = d.laggingLocked(uint64(max(laggingAfter, objects)))
	}
	d.mu.Unlock()
	if announced {
		d.announced.Raise()
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

// position returns the newest change and the number of changes so far.
func (d *Dispatcher[T]) position() (tail *Change[T], count uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tail, d.count
}
