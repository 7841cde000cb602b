package informer

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace/millrace/informer/internal/dispatch"
)

// Errors of informers and registrations.
var (
	ErrStopped error = dispatch.ErrStopped
	ErrClosed  error = dispatch.ErrClosed
	ErrRunning       = errors.New("informer is running or has run already")
)

// HandlerPanic is reported when a handler has panicked. The handler is called again for the next change.
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

// Registration is a handler of an informer. Close ends it.
type Registration[T any] struct {
	owner    *Shared[T]
	follower *dispatch.Follower[T]
}

// HasSynced reports whether the handler has received every object that was in the cache when it was added.
func (r *Registration[T]) HasSynced() bool { return closed(r.follower.Synced()) }

// Synced waits until HasSynced. If the context ends first, the error says what is missing.
func (r *Registration[T]) Synced(ctx context.Context) error {
	if r.HasSynced() {
		return nil
	}
	select {
	case <-r.follower.Synced():
		return nil
	case <-r.follower.Leaving().Done():
		return context.Cause(r.follower.Leaving())
	case <-ctx.Done():
		return r.owner.notSyncedError(ctx)
	}
}

// Close removes the handler. A call that is in progress is not interrupted, and Done is closed when it has returned; no
// other call follows. Close may be called by the handler itself.
func (r *Registration[T]) Close() { r.follower.Close() }

// Done is closed when the handler has been removed and none of its functions is running.
func (r *Registration[T]) Done() <-chan struct{} { return r.follower.Done() }

func closed(channel <-chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}
