package dispatch

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/informer/internal/state"
)

// Receiver is told of changes. It may panic only if that shall end the program.
type Receiver[T any] interface {
	Tell(n Notice[T])
}

// Follower is a receiver that is told of a dispatcher's changes until it leaves.
type Follower[T any] struct {
	owner        *Dispatcher[T]
	to           Receiver[T]
	resyncPeriod time.Duration // zero or less: never

	leave     context.CancelCauseFunc
	leaving   context.Context
	synced    chan struct{} // closed when the initial objects have been delivered
	done      chan struct{} // closed when the receiver is not being called and will not be
	delivered atomic.Uint64 // the number of changes taken, for the dispatcher to see who lags

	mu      sync.Mutex
	cursor  *Change[T] // guarded by mu: the last change taken; nil before the start
	backlog backlog[T] // guarded by mu

	place place // guarded by the shared loop's mu

	// These belong to the goroutine that calls the receiver.
	nextResync time.Time     // zero: never
	aloneUntil time.Time     // when it may return to the shared loop
	penalty    time.Duration // how long it was kept from that last
}

// Synced is closed when the receiver has been told of everything that was there when it joined.
func (f *Follower[T]) Synced() <-chan struct{} { return f.synced }

// Leaving ends when the follower is to leave. Its cause says why.
func (f *Follower[T]) Leaving() context.Context { return f.leaving }

// Done is closed when the follower has left and the receiver is not being called.
func (f *Follower[T]) Done() <-chan struct{} { return f.done }

// Close makes the follower leave. A call that is under way is not cut short; no other call follows.
func (f *Follower[T]) Close() {
	f.leave(ErrClosed)
	f.owner.shared.leave(f)
	f.owner.remove(f)
}

// run tells the receiver of what is there, and then of what changes.
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
		f.to.Tell(Notice[T]{New: v, Initial: true})
	}
	close(f.synced)
	f.planResync(time.Now())
	stays = true
	f.runAlone()
}

// start returns the initial objects and places the cursor behind them.
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

// runAlone calls the receiver from this goroutine until it joins the shared loop or leaves. This goroutine may then
// become that of the shared loop, and be left to a follower again, this or another one.
func (f *Follower[T]) runAlone() {
	for f != nil {
		generation, works := f.alone()
		if !works {
			return
		}
		f = f.owner.shared.run(generation)
	}
}

// alone calls the receiver until it joins the shared loop, and reports whether this goroutine has to run that.
func (f *Follower[T]) alone() (generation uint64, works bool) {
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
			f.to.Tell(n)
			continue
		}
		if generation, works, joined = f.owner.shared.join(f); joined {
			return generation, works
		}
		f.wait(more)
	}
	return 0, false
}

func (f *Follower[T]) wait(more <-chan struct{}) {
	resync, stop := alarm(f.nextResync)
	defer stop()
	select {
	case <-more:
	case <-resync:
	case <-f.leaving.Done():
	}
}

// alarm returns a channel that receives at a time; never if that is zero.
func alarm(at time.Time) (<-chan time.Time, func() bool) {
	if at.IsZero() {
		return nil, func() bool { return false }
	}
	timer := time.NewTimer(time.Until(at))
	return timer.C, timer.Stop
}

// deliver tells the receiver of so many changes at most, and returns how many they were. If timed, it reports whether
// that took long.
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
		f.to.Tell(n)
		told++
	}
	return told, timed && told > 0 && time.Since(began) > time.Duration(told)*maxPerChange
}

// setApart keeps the follower from the shared loop for a while, which doubles each time.
func (f *Follower[T]) setApart() {
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
	// The table is not newer than what is drained now, so an object without a notice is as the table has it.
	f.drainLocked()
	for v := range table.All() {
		if n, waiting := f.backlog.byKey[v.Key]; waiting {
			n.Resync = true
			continue
		}
		f.backlog.push(v.Key, Notice[T]{Old: v, New: v, Resync: true})
	}
}
