package informer

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Errors of informers and registrations.
var (
	ErrStopped = errors.New("informer has stopped")
	ErrClosed  = errors.New("handler has left")
	ErrRunning = errors.New("informer is running or has run already")
)

// HandlerPanic is reported when a handler panicked. The handler goes on with the next change.
type HandlerPanic struct {
	Handler string
	Key     Key
	Value   any
	Stack   []byte
}

// Error implements error.
func (p *HandlerPanic) Error() string {
	return fmt.Sprintf("handler %q panicked on %s: %v", p.Handler, p.Key, p.Value)
}

// Registration is one handler's membership in an informer.
type Registration[T any] struct {
	owner   *Shared[T]
	handler Handler[T]

	leave     context.CancelCauseFunc
	leaving   context.Context
	synced    chan struct{} // closed when the initial objects have been delivered
	done      chan struct{} // closed when no function is running and none will be called
	delivered atomic.Uint64 // the number of changes taken from the informer, for the informer to see who lags

	mu      sync.Mutex
	cursor  *change[T] // guarded by mu: the last change taken; nil before the start
	backlog backlog[T] // guarded by mu

	place place // guarded by the crew's mu

	// These belong to whoever calls the handler.
	nextResync time.Time     // zero: never
	exile      time.Time     // when it may go back to the crew
	penalty    time.Duration // how long the next exile is going to last
}

// HasSynced reports whether the handler has been told of everything that was there when it joined.
func (r *Registration[T]) HasSynced() bool {
	select {
	case <-r.synced:
		return true
	default:
		return false
	}
}

// Ready returns a channel that is closed when HasSynced.
func (r *Registration[T]) Ready() <-chan struct{} { return r.synced }

// Synced waits until HasSynced. The error says what stands in the way.
func (r *Registration[T]) Synced(ctx context.Context) error {
	select {
	case <-r.synced:
		return nil
	default:
	}
	select {
	case <-r.synced:
		return nil
	case <-r.leaving.Done():
		return context.Cause(r.leaving)
	case <-ctx.Done():
		return r.owner.whyNotSynced(ctx)
	}
}

// Close makes the handler leave. A call that is under way is not cut short, Done tells when it has returned; no other
// call follows. Close may be called from within the handler.
func (r *Registration[T]) Close() { r.end(ErrClosed) }

// Done is closed when the handler has left and none of its functions is running.
func (r *Registration[T]) Done() <-chan struct{} { return r.done }

func (r *Registration[T]) end(cause error) {
	r.leave(cause)
	r.owner.crew.drop(r)
	r.owner.forget(r)
}

// run tells the handler of what is there, and then of what changes.
func (r *Registration[T]) run() {
	stays := false
	defer func() {
		if !stays {
			close(r.done)
		}
	}()
	select {
	case <-r.owner.synced:
	case <-r.leaving.Done():
		return
	}
	for v := range r.start() {
		if r.leaving.Err() != nil {
			return
		}
		r.tell(&notice[T]{new: v}, true)
	}
	close(r.synced)
	r.planResync(time.Now())
	stays = true
	r.goOn()
}

// goOn calls the handler from this goroutine until it comes aboard or leaves. Then the goroutine may be needed for the
// crew, and be left behind by it with a handler again, this or another.
func (r *Registration[T]) goOn() {
	for r != nil {
		shift, works := r.alone()
		if !works {
			return
		}
		r = r.owner.crew.work(shift)
	}
}

// alone calls the handler until it comes aboard, and then says whether this goroutine has to work a shift, or leaves.
func (r *Registration[T]) alone() (shift uint64, works bool) {
	boarded := false
	defer func() {
		if !boarded {
			close(r.done)
		}
	}()
	for r.leaving.Err() == nil {
		if r.resyncDue(time.Now()) {
			r.resync()
		}
		n, ok, more := r.next()
		if ok {
			r.tell(&n, false)
			continue
		}
		if shift, works, boarded = r.owner.crew.board(r); boarded {
			return shift, works
		}
		r.wait(more)
	}
	return 0, false
}

func (r *Registration[T]) wait(more <-chan struct{}) {
	resync, stop := alarm(r.nextResync)
	defer stop()
	select {
	case <-more:
	case <-resync:
	case <-r.leaving.Done():
	}
}

// deliver tells the handler of at most so many changes, and how many that were. If asked, it says whether that took
// long.
func (r *Registration[T]) deliver(most int, timed bool) (told int, slow bool) {
	var began time.Time
	if timed {
		began = time.Now()
	}
	for told < most && r.leaving.Err() == nil {
		n, ok := r.take()
		if !ok {
			break
		}
		r.tell(&n, false)
		told++
	}
	return told, timed && told > 0 && time.Since(began) > time.Duration(told)*aLot
}

// banish keeps the handler from the crew for a while.
func (r *Registration[T]) banish() {
	r.penalty = min(max(2*r.penalty, firstExile), longestExile)
	r.exile = time.Now().Add(r.penalty)
}

func (r *Registration[T]) planResync(now time.Time) {
	period := r.handler.Resync
	if period == 0 {
		period = r.owner.options.Resync
	}
	if period > 0 {
		r.nextResync = now.Add(period)
	}
}

func (r *Registration[T]) resyncDue(now time.Time) bool {
	return !r.nextResync.IsZero() && !now.Before(r.nextResync)
}

// waiting reports whether there is something to tell or to do.
func (r *Registration[T]) waiting() bool {
	if r.resyncDue(time.Now()) {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.backlog.len() > 0 || r.cursor.next.Load() != nil
}

// next returns what to tell next, or else a channel that is closed when there may be more.
func (r *Registration[T]) next() (n notice[T], ok bool, more <-chan struct{}) {
	if n, ok = r.take(); ok {
		return n, true, nil
	}
	more = r.owner.news.wait()
	n, ok = r.take()
	return n, ok, more
}

func (r *Registration[T]) take() (notice[T], bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.backlog.len() == 0 {
		// Most handlers keep up: one change at a time, each the newest of its object. That needs no backlog.
		next := r.cursor.next.Load()
		if next == nil {
			return notice[T]{}, false
		}
		if next.new == nil || !next.new.past.Load() {
			r.cursor = next
			r.delivered.Add(1)
			return noticeOf(next), true
		}
	}
	r.drainLocked()
	return r.backlog.pop()
}

// catchUp takes over, on behalf of a handler that is busy, what waits for it: merged, it needs less memory.
func (r *Registration[T]) catchUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cursor != nil {
		r.drainLocked()
	}
}

func (r *Registration[T]) drainLocked() {
	taken := uint64(0)
	for next := r.cursor.next.Load(); next != nil; next = next.next.Load() {
		r.backlog.add(next)
		r.cursor = next
		taken++
	}
	if taken > 0 {
		r.delivered.Add(taken)
	}
}

// call runs one of the handler's functions, which may be nil, and then Changed.
func (r *Registration[T]) call(key Key, f func()) {
	r.guarded(key, f)
	if r.handler.Changed != nil {
		r.guarded(key, func() { r.handler.Changed(key) })
	}
}

// guarded contains a panic.
func (r *Registration[T]) guarded(key Key, f func()) {
	if f == nil || r.leaving.Err() != nil {
		return
	}
	defer func() {
		if value := recover(); value != nil {
			r.owner.panicked(&HandlerPanic{Handler: r.handler.Name, Key: key, Value: value, Stack: debug.Stack()})
		}
	}()
	f()
}
