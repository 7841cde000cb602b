package rbac

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/watchcache"
	"github.com/millrace/millrace/internal/sleep"
)

// Options say what an authorizer follows. Registry is required.
type Options struct {
	Registry *registry.Registry
	// Shared says that other servers write to the store.
	Shared bool
	Logger *slog.Logger
}

// Authorizer decides by the roles of the cluster.
type Authorizer struct {
	o        Options
	now      atomic.Pointer[snapshot] // nil until it is ready
	nudge    chan struct{}
	follower *follower // used by Run
	// silent is the time, in nanoseconds, until which the store is not asked before a request is allowed.
	silent atomic.Int64

	mu       sync.Mutex    // guards what follows, and writes of now
	changed  chan struct{} // closed when there is another snapshot
	reached  chan struct{} // closed when that may change in which namespaces users may do something
	restores int           // how often the store went back to an older state
}

// New makes an authorizer. Run keeps it up to date; until it is ready it waits with every answer.
func New(o Options) *Authorizer {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	a := &Authorizer{o: o, nudge: make(chan struct{}, 1), changed: make(chan struct{}), reached: make(chan struct{})}
	a.follower = newFollower(a)
	o.Registry.Cache.OnReplaced(a.forget)
	return a
}

// retryAfter is how long Run waits before it starts anew after a failure.
const retryAfter = 100 * time.Millisecond

// Run follows the log until the context ends.
func (a *Authorizer) Run(ctx context.Context) error {
	f := a.follower
	defer f.stream.Close()
	kinds := a.o.Registry.Catalogue.Changed()
	for ctx.Err() == nil {
		if err := f.advance(ctx); err != nil {
			f.stream.Close()
			a.o.Logger.Debug("the roles are read anew", "error", err)
			sleep.For(ctx, retryAfter)
			continue
		}
		wakes := f.stream.Wakes()
		select {
		case <-wakes[0]:
		case <-wakes[1]:
		case <-wakes[2]:
		case <-wakes[3]:
		case <-a.nudge:
		case <-kinds:
			kinds, f.kinds = a.o.Registry.Catalogue.Changed(), true
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// WaitReady waits until the authorizer knows the state of the cluster.
func (a *Authorizer) WaitReady(ctx context.Context) error {
	_, err := a.await(ctx, 0)
	return err
}

// forget lets go of the snapshot before anybody sees anything of a restored store, whose revisions say nothing about
// it. What was granted after the backup must not be granted any more.
func (a *Authorizer) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.restores++
	a.now.Store(nil)
}

// publish shows a snapshot, unless the store went back to an older state since it was begun.
func (a *Authorizer) publish(s *snapshot, restores int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.restores != restores {
		return watchcache.ErrReplaced
	}
	before := a.now.Load()
	a.now.Store(s)
	close(a.changed)
	a.changed = make(chan struct{})
	if before == nil || before.changed != s.changed { // most snapshots only say that nothing has changed until then
		close(a.reached)
		a.reached = make(chan struct{})
	}
	return nil
}

// await waits for a snapshot of a revision or a later one.
func (a *Authorizer) await(ctx context.Context, rev store.Revision) (*snapshot, error) {
	for {
		a.mu.Lock()
		changed := a.changed
		a.mu.Unlock()
		if s := a.now.Load(); s != nil && s.revision >= rev {
			return s, nil
		}
		select {
		case a.nudge <- struct{}{}:
		default:
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the roles of revision %v: %w", rev, context.Cause(ctx))
		}
	}
}

var _ auth.Authorizer = (*Authorizer)(nil)
