package rbac

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/watchcache"
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
	o     Options
	now   atomic.Pointer[snapshot] // nil until it is ready
	nudge chan struct{}
	made  atomic.Pointer[[]*registry.Storage]
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
	o.Registry.Cache.OnReplaced(a.forget)
	return a
}

// followed are the resources that decisions rest on.
var followed = []string{"clusterroles", "roles", "clusterrolebindings", "rolebindings"}

const (
	// retryAfter is how long Run waits before it starts anew after a failure.
	retryAfter = 100 * time.Millisecond
	// mostEvents is how many events of a kind are taken in before the others are looked at.
	mostEvents = 10_000
)

// Run follows the log until the context ends.
func (a *Authorizer) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := a.follow(ctx)
		if ctx.Err() != nil {
			break
		}
		a.o.Logger.Debug("the roles are read anew", "error", err)
		select {
		case <-time.After(retryAfter):
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

// follow reads the whole state and then each change. It returns when a watch has ended.
func (a *Authorizer) follow(ctx context.Context) error {
	storages, err := a.storages()
	if err != nil {
		return err
	}
	a.mu.Lock()
	restores := a.restores
	a.mu.Unlock()
	f := &follower{wake: make([]<-chan struct{}, len(storages))}
	kinds := a.o.Registry.Catalogue.Changed()
	defer f.close()
	for _, s := range storages {
		w, err := s.Watch(ctx, registry.WatchQuery{
			Selection: registry.Select(s.Kind().Faces[0], "", "", nil, nil), Initial: true,
		})
		if err != nil {
			return err
		}
		f.sources = append(f.sources, &source{kind: s.Kind(), watcher: w})
	}
	shown, first, err := f.fill(ctx)
	if err != nil {
		return err
	}
	for {
		next, err := f.advance(ctx, shown)
		if err != nil {
			return err
		}
		if next != nil {
			if shown = next; shown.revision >= first {
				if err := a.publish(shown, restores); err != nil {
					return err
				}
			}
		}
		if f.more {
			continue
		}
		if rev := f.waiting(); rev > 0 {
			if err := a.o.Registry.Cache.WaitFor(ctx, rev); err != nil {
				return err
			}
			continue
		}
		select {
		case <-f.wake[0]:
		case <-f.wake[1]:
		case <-f.wake[2]:
		case <-f.wake[3]:
		case <-a.nudge:
		case <-kinds:
			kinds, f.kinds = a.o.Registry.Catalogue.Changed(), true
		case <-ctx.Done():
			return ctx.Err()
		}
	}
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

// storages are those of the resources that are followed.
func (a *Authorizer) storages() ([]*registry.Storage, error) {
	if found := a.made.Load(); found != nil {
		return *found, nil
	}
	r := a.o.Registry
	var out []*registry.Storage
	for _, name := range followed {
		kind, ok := r.Catalogue.Kind(rbacv1.SchemeGroupVersion.WithResource(name).GroupResource())
		if !ok {
			return nil, fmt.Errorf("%s are not served", name)
		}
		s, err := r.Storage(kind)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	a.made.Store(&out)
	return out, nil
}

// source is one of the resources.
type source struct {
	kind    *resource.Kind
	watcher *registry.Watcher
	waiting []registry.Event // taken from the watch, and later than what the others have shown
	reached store.Revision
}

// follower makes snapshots from the watches of all sources. Each is the state at one revision, up to which all of them
// have come.
type follower struct {
	sources []*source
	wake    []<-chan struct{}
	more    bool // there may be events that have not been taken
	// kinds says that the kinds have changed after the last snapshot, and with them what rules mean for namespaces.
	kinds bool
}

func (f *follower) close() {
	for _, s := range f.sources {
		s.watcher.Close()
	}
}

// fill makes a snapshot of what the watches begin with. They may have begun at different revisions, so that nobody may
// see it before all have come to the last of these.
func (f *follower) fill(ctx context.Context) (made *snapshot, last store.Revision, err error) {
	c := emptySnapshot().change()
	for _, s := range f.sources {
		for _, o := range s.watcher.Initial {
			if err := s.add(ctx, c, o); err != nil {
				return nil, 0, err
			}
		}
		last = max(last, s.watcher.InitialRevision)
		s.watcher.Initial = nil
	}
	return c.done(0, last), last, nil
}

// waiting is the revision of the last event that has been taken and is in no snapshot yet: events wake their followers
// a moment before the cache says that it has come that far. Nothing else would wake the follower for it.
func (f *follower) waiting() (last store.Revision) {
	for _, s := range f.sources {
		if n := len(s.waiting); n > 0 {
			last = max(last, s.waiting[n-1].Revision)
		}
	}
	return last
}

// advance takes what the watches have and makes a snapshot of the revision up to which all of them have come; nil if
// that is what the present one shows.
func (f *follower) advance(ctx context.Context, present *snapshot) (*snapshot, error) {
	f.more = false
	var upTo store.Revision
	for i, s := range f.sources {
		if err := s.take(); err != nil {
			return nil, err
		}
		if i == 0 || s.reached < upTo {
			upTo = s.reached
		}
		f.wake[i] = s.watcher.Wake()
		f.more = f.more || len(s.waiting) >= mostEvents
	}
	if upTo <= present.revision {
		return nil, nil
	}
	c, changed := present.change(), present.changed
	if f.kinds {
		changed, f.kinds = upTo, false
	}
	for _, s := range f.sources {
		n := 0
		for ; n < len(s.waiting) && s.waiting[n].Revision <= upTo; n++ {
			changed = upTo
			if err := s.apply(ctx, c, s.waiting[n]); err != nil {
				return nil, err
			}
		}
		s.waiting = slices.Delete(s.waiting, 0, n)
	}
	return c.done(upTo, changed), nil
}

var errCorrupt = errors.New("a role or a binding cannot be read")

// take reads what the watch has.
func (s *source) take() error {
	for len(s.waiting) < mostEvents {
		e, ok, err := s.watcher.Next()
		if err != nil {
			return err
		}
		if !ok {
			if at, ok := s.watcher.Bookmark(); ok {
				s.reached = at
			}
			return nil
		}
		s.waiting = append(s.waiting, e)
		s.reached = e.Revision - 1 // others of the same revision may follow
	}
	return nil
}

func (s *source) apply(ctx context.Context, c *change, e registry.Event) error {
	if e.Type != apiwatch.Deleted {
		return s.add(ctx, c, e.Object)
	}
	o, err := s.decode(ctx, e.Object)
	if err != nil {
		return err
	}
	at := name{o.GetNamespace(), o.GetName()}
	switch o.(type) {
	case *rbacv1.ClusterRole, *rbacv1.Role:
		c.removeRole(at)
	default:
		c.removeBinding(at)
	}
	return nil
}

func (s *source) add(ctx context.Context, c *change, object *watchcache.Object) error {
	o, err := s.decode(ctx, object)
	if err != nil {
		return err
	}
	at := name{o.GetNamespace(), o.GetName()}
	switch o := o.(type) {
	case *rbacv1.ClusterRole:
		c.setRole(at, o.Rules)
	case *rbacv1.Role:
		c.setRole(at, o.Rules)
	case *rbacv1.ClusterRoleBinding:
		c.setBinding(bind(at, name{"", o.RoleRef.Name}, o.Subjects))
	case *rbacv1.RoleBinding:
		role := name{"", o.RoleRef.Name}
		if o.RoleRef.Kind == "Role" {
			role.namespace = o.Namespace
		}
		c.setBinding(bind(at, role, o.Subjects))
	}
	return nil
}

func (s *source) decode(ctx context.Context, o *watchcache.Object) (resource.Object, error) {
	decoded, err := s.kind.Decode(ctx, o.Value(), o.Revision.String())
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", errCorrupt, o.Key, err)
	}
	return decoded, nil
}

var _ auth.Authorizer = (*Authorizer)(nil)
