package rbac

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/internal/server/follow"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/store"
)

// follower makes snapshots of a stream of roles and bindings. Each is the state at one revision, up to which all kinds
// have come. Only one goroutine uses it.
type follower struct {
	authorizer *Authorizer
	stream     *follow.Stream
	waiting    []waiting // what is in no snapshot yet
	shown      *snapshot
	restores   int // how often the store had gone back to an older state when the stream began
	// kinds says that the kinds have changed after the last snapshot, and with them what rules mean for namespaces.
	kinds bool
}

// waiting is a change that is in no snapshot yet.
type waiting struct {
	kind *resource.Kind
	registry.Event
}

func newFollower(a *Authorizer) *follower {
	f := &follower{authorizer: a}
	o := follow.StreamOptions{Registry: a.o.Registry, Begin: f.begin, Receive: f.receive}
	for _, name := range []string{"clusterroles", "roles", "clusterrolebindings", "rolebindings"} {
		o.Kinds = append(o.Kinds, schema.GroupResource{Group: rbacv1.GroupName, Resource: name})
	}
	f.stream = follow.NewStream(o)
	return f
}

func (f *follower) begin() {
	f.waiting, f.shown = nil, emptySnapshot()
	f.authorizer.mu.Lock()
	defer f.authorizer.mu.Unlock()
	f.restores = f.authorizer.restores
}

func (f *follower) receive(_ context.Context, kind *resource.Kind, e registry.Event) error {
	f.waiting = append(f.waiting, waiting{kind, e})
	return nil
}

// advance takes in what there is, and publishes what all kinds have come to. Events wake their followers a moment before
// the cache says that it has come that far, and nothing else would wake the follower for it: it waits for that.
func (f *follower) advance(ctx context.Context) error {
	for waitedFor := store.Revision(0); ; {
		if err := f.stream.CatchUp(ctx); err != nil {
			return err
		}
		reached, last := f.stream.Reached(), f.stream.Shown()
		if err := f.show(ctx, reached); err != nil {
			return err
		}
		if last <= max(waitedFor, reached) {
			return nil
		}
		if err := f.authorizer.o.Registry.Cache.WaitFor(ctx, last); err != nil {
			return err
		}
		waitedFor = last
	}
}

// show publishes the snapshot of a revision, if that is later than the present one.
func (f *follower) show(ctx context.Context, upTo store.Revision) error {
	if upTo <= f.shown.revision {
		return nil
	}
	c, changed := f.shown.change(), f.shown.changed
	if f.kinds || f.shown.revision == 0 {
		changed, f.kinds = upTo, false
	}
	var later []waiting
	for _, w := range f.waiting {
		if w.Revision > upTo {
			later = append(later, w)
			continue
		}
		changed = upTo
		if err := w.apply(ctx, c); err != nil {
			return err
		}
	}
	f.waiting, f.shown = later, c.done(upTo, changed)
	return f.authorizer.publish(f.shown, f.restores)
}

func (w *waiting) apply(ctx context.Context, c *change) error {
	o, err := w.kind.Decode(ctx, w.Object.Value(), w.Object.Revision.String())
	if err != nil {
		return fmt.Errorf("%s cannot be read: %w", w.Object.Key, err)
	}
	at, gone := name{o.GetNamespace(), o.GetName()}, w.Type == watch.Deleted
	switch o := o.(type) {
	case *rbacv1.ClusterRole:
		c.setRole(at, o.Rules, gone)
	case *rbacv1.Role:
		c.setRole(at, o.Rules, gone)
	case *rbacv1.ClusterRoleBinding:
		c.setBinding(bind(at, name{"", o.RoleRef.Name}, o.Subjects), gone)
	case *rbacv1.RoleBinding:
		role := name{"", o.RoleRef.Name}
		if o.RoleRef.Kind == "Role" {
			role.namespace = o.Namespace
		}
		c.setBinding(bind(at, role, o.Subjects), gone)
	}
	return nil
}
