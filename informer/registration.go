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

// Close makes the handler leave. No function is called after Close has returned, except one that is already being
// called; Done tells when that has returned too. It may be called from within the handler.
func (r *Registration[T]) Close() { r.end(ErrClosed) }

// Done is closed when the handler has left and none of its functions is running.
func (r *Registration[T]) Done() <-chan struct{} { return r.done }

func (r *Registration[T]) end(cause error) {
	r.leave(cause)
	r.owner.forget(r)
}

// run delivers until the handler leaves.
func (r *Registration[T]) run() {
	defer close(r.done)
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
	r.follow()
}

func (r *Registration[T]) follow() {
	resync, stop := r.resyncTimer()
	defer stop()
	for r.leaving.Err() == nil {
		n, ok, more := r.next()
		if ok {
			r.tell(&n, false)
			continue
		}
		select {
		case <-more:
		case <-resync:
			r.resync()
		case <-r.leaving.Done():
		}
	}
}

func (r *Registration[T]) resyncTimer() (<-chan time.Time, func()) {
	period := r.handler.Resync
	if period == 0 {
		period = r.owner.options.Resync
	}
	if period <= 0 {
		return nil, func() {}
	}
	ticker := time.NewTicker(period)
	return ticker.C, ticker.Stop
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
