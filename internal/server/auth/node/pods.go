package node

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/watchcache"
)

type podName struct{ namespace, name string }

// boundPod is a pod that is bound to a node, and what it uses if somebody has asked for that.
type boundPod struct {
	podName
	used atomic.Pointer[podUse]
}

// podIndex knows the pods of each node. It has no goroutine: who asks it lets it catch up with the cache, which costs
// what has happened since it was last asked.
type podIndex struct {
	mu      sync.Mutex // guards what follows
	watcher *registry.Watcher
	place   int // of the node's name among the selectable fields
	byNode  map[string]map[podName]*boundPod
}

// of returns a node's pods.
func (x *podIndex) of(ctx context.Context, c *cluster, node string) ([]*boundPod, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	err := x.catchUpLocked(ctx, c)
	return slices.Collect(maps.Values(x.byNode[node])), err
}

// has tells whether a pod is bound to a node.
func (x *podIndex) has(ctx context.Context, c *cluster, node string, p podName) (bool, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	err := x.catchUpLocked(ctx, c)
	return err == nil && x.byNode[node][p] != nil, err
}

func (x *podIndex) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closeLocked()
}

func (x *podIndex) closeLocked() {
	if x.watcher != nil {
		x.watcher.Close()
		x.watcher, x.byNode = nil, nil
	}
}

// catchUpLocked takes in what has happened. If its place in the history is lost it begins anew.
func (x *podIndex) catchUpLocked(ctx context.Context, c *cluster) error {
	if x.watcher != nil && x.drainLocked() == nil {
		return nil
	}
	x.closeLocked()
	s, err := c.storage(schema.GroupResource{Resource: "pods"})
	if s == nil || err != nil {
		return err
	}
	face := s.Kind().Faces[0]
	x.place = slices.IndexFunc(s.Kind().Fields, func(f resource.Field) bool { return f.Label == "spec.nodeName" })
	// The place outlives the request.
	x.watcher, err = s.Watch(context.WithoutCancel(ctx), registry.WatchQuery{
		Selection: registry.Select(face, "", "", nil, nil), Freshness: registry.Freshness{Any: true}, Initial: true,
	})
	if err != nil {
		x.watcher = nil
		return err
	}
	x.byNode = map[string]map[podName]*boundPod{}
	for _, o := range x.watcher.Initial {
		x.addLocked(o)
	}
	x.watcher.Initial = nil
	return x.drainLocked()
}

func (x *podIndex) drainLocked() error {
	for {
		e, ok, err := x.watcher.Next()
		if !ok || err != nil {
			return err
		}
		x.applyLocked(e.Source)
	}
}

func (x *podIndex) applyLocked(e *watchcache.Event) {
	if e.Type == watchcache.Modified && e.Previous.Field(x.place) == e.Object.Field(x.place) {
		return
	}
	if e.Previous != nil {
		x.removeLocked(e.Previous)
	}
	if e.Type != watchcache.Deleted {
		x.addLocked(e.Object)
	}
}

func (x *podIndex) addLocked(o *watchcache.Object) {
	node := o.Field(x.place)
	if node == "" {
		return
	}
	if x.byNode[node] == nil {
		x.byNode[node] = map[podName]*boundPod{}
	}
	at := podName{o.Namespace(), o.Name()}
	x.byNode[node][at] = &boundPod{podName: at}
}

func (x *podIndex) removeLocked(o *watchcache.Object) {
	node := o.Field(x.place)
	delete(x.byNode[node], podName{o.Namespace(), o.Name()})
	if len(x.byNode[node]) == 0 {
		delete(x.byNode, node)
	}
}

// use is what the pod uses now; nil if it has gone.
func (p *boundPod) use(ctx context.Context, c *cluster) (*podUse, error) {
	s, err := c.storage(schema.GroupResource{Resource: "pods"})
	if s == nil || err != nil {
		return nil, err
	}
	o, err := s.Get(ctx, p.namespace, p.name, registry.Freshness{Any: true})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if known := p.used.Load(); known != nil && known.revision == o.Revision {
		return known, nil
	}
	decoded, err := s.Kind().Decode(ctx, o.Value(), o.Revision.String())
	if err != nil {
		return nil, nil // one that cannot be read gives nobody anything
	}
	use := useOf(decoded.(*corev1.Pod), o.Revision)
	p.used.Store(use)
	return use, nil
}

// podUse is what one version of a pod names.
type podUse struct {
	revision store.Revision
	names    map[thing][]string
}
