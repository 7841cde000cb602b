package dispatch

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/informer/internal/state"
)

// Receiver receives changes. A panic of Notify ends the program.
type Receiver[T any] interface {
	Notify(n Notice[T])
}

// Follower passes a dispatcher's changes to a receiver until it is closed.
type Follower[T any] struct {
	owner        *Dispatcher[T]
	receiver     Receiver[T]
	resyncPeriod time.Duration // zero or less: never

	leave     context.CancelCauseFunc
	leaving   context.Context
	synced    chan struct{} // closed when the initial objects have been delivered
	done      chan struct{} // closed when the receiver is not being called and will not be called again
	delivered atomic.Uint64 // the number of changes taken; the dispatcher finds lagging followers by it

	mu      sync.Mutex
	cursor  *Change[T] // guarded by mu: the last change taken; nil before the start
	backlog backlog[T] // guarded by mu

	goroutine goroutine // guarded by the shared loop's mu

	// These belong to the goroutine that calls the receiver.
	nextResync time.Time     // zero: never
	aloneUntil time.Time     // the earliest time at which it may join the shared loop again
	penalty    time.Duration // the last time that it had to stay out of the shared loop
}

// Synced is closed when the receiver has been told of every object that was there when it was added.
func (f *Follower[T]) Synced() <-chan struct{} { return f.synced }

// Leaving is a context that ends when the follower is closed. Its cause is the reason.
func (f *Follower[T]) Leaving() context.Context { return f.leaving }

// Done is closed when the follower has been closed and the receiver is not being called.
func (f *Follower[T]) Done() <-chan struct{} { return f.done }

// Close closes the follower. A call that is in progress is not interrupted; no other call follows.
func (f *Follower[T]) Close() {
	f.leave(ErrClosed)
	f.owner.shared.leave(f)
	f.owner.remove(f)
}

// run passes on the initial objects, and then the changes.
func (f *Follower[T]) run() {
	stays := false
	defer func() {
		if !stays {
			close(f.done)
		}
	}()
	select {
	case <-f.owner.options.Synced:
	case <-f.leaving.Done():
		return
	}
	for v := range f.start() {
		if f.leaving.Err() != nil {
			return
		}
		f.receiver.Notify(Notice[T]{New: v, Initial: true})
	}
	close(f.synced)
	f.planResync(time.Now())
	stays = true
	f.runAlone()
}

// start returns the initial objects and sets the cursor to the change after which they were read.
func (f *Follower[T]) start() iter.Seq[*state.Version[T]] {
	initial := f.owner.options.Copy(func() {
		tail, count := f.owner.position()
		f.mu.Lock()
		defer f.mu.Unlock()
		f.cursor = tail
		f.delivered.Store(count)
	})
	return initial.All()
}

// runAlone calls the receiver from this goroutine until the follower joins the shared loop or is closed. The goroutine
// may then run the shared loop itself. When a receiver takes too long, it is left with the follower, which is not
// always the same one, and calls that alone again.
func (f *Follower[T]) runAlone() {
	for f != nil {
		generation, runsLoop := f.alone()
		if !runsLoop {
			return
		}
		f = f.owner.shared.run(generation)
	}
}

// alone calls the receiver until the follower joins the shared loop. If runsLoop, the caller's goroutine has to run
// that loop.
func (f *Follower[T]) alone() (generation uint64, runsLoop bool) {
	joined := false
	defer func() {
		if !joined {
			close(f.done)
		}
	}()
	for f.leaving.Err() == nil {
		if f.resyncDue(time.Now()) {
			f.resync()
		}
		n, ok, more := f.next()
		if ok {
			f.receiver.Notify(n)
			continue
		}
		if generation, runsLoop, joined = f.owner.shared.join(f); joined {
			return generation, runsLoop
		}
		f.wait(more)
	}
	return 0, false
}

func (f *Follower[T]) wait(more <-chan struct{}) {
	resync, stop := timerAt(f.nextResync)
	defer stop()
	select {
	case <-more:
	case <-resync:
	case <-f.leaving.Done():
	}
}

// timerAt returns a channel that receives at the given time, or never if that is zero.
func timerAt(at time.Time) (<-chan time.Time, func() bool) {
	if at.IsZero() {
		return nil, func() bool { return false }
	}
	timer := time.NewTimer(time.Until(at))
	return timer.C, timer.Stop
}

// deliver passes on at most that many changes, and returns how many there were. If timed, slow reports whether they
// took too long on average.
func (f *Follower[T]) deliver(most int, timed bool) (told int, slow bool) {
	var began time.Time
	if timed {
		began = time.Now()
	}
	for told < most && f.leaving.Err() == nil {
		n, ok := f.take()
		if !ok {
			break
		}
		f.receiver.Notify(n)
		told++
	}
	return told, timed && told > 0 && time.Since(began) > time.Duration(told)*maxPerChange
}

// penalize keeps the follower out of the shared loop for a while. The time doubles with each penalty.
func (f *Follower[T]) penalize() {
	f.penalty = min(max(2*f.penalty, firstPenalty), longestPenalty)
	f.aloneUntil = time.Now().Add(f.penalty)
}

func (f *Follower[T]) planResync(now time.Time) {
	if f.resyncPeriod > 0 {
		f.nextResync = now.Add(f.resyncPeriod)
	}
}

func (f *Follower[T]) resyncDue(now time.Time) bool {
	return !f.nextResync.IsZero() && !now.Before(f.nextResync)
}

// resync puts a notice into the backlog for each object that has none.
func (f *Follower[T]) resync() {
	f.planResync(time.Now())
	table := f.owner.options.Copy(func() {})
	f.mu.Lock()
	defer f.mu.Unlock()
	// The table is not newer than the changes that are drained now, so an object without a notice is up to date in the
	// table.
	f.drainLocked()
	for v := range table.All() {
		if n, waiting := f.backlog.byKey[v.Key]; waiting {
			n.Resync = true
			continue
		}
		f.backlog.push(v.Key, Notice[T]{Old: v, New: v, Resync: true})
	}
}
