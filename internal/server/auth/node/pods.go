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
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/internal/server/follow"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/watchcache"
)

var podResource = schema.GroupResource{Resource: "pods"}

type podName struct{ namespace, name string }

// boundPod is a pod that is bound to a node, and what it uses if somebody has asked for that.
type boundPod struct {
	podName
	used atomic.Pointer[podUse]
}

// podIndex knows the pods of each node. It has no goroutine: who asks it lets it catch up with the cache, which costs
// what has happened since it was last asked.
type podIndex struct {
	mu     sync.Mutex // guards what follows
	stream *follow.Stream
	field  int // the index of the node's name among the selectable fields
	byNode map[string]map[podName]*boundPod
}

func newPodIndex(r *registry.Registry) *podIndex {
	x := &podIndex{}
	x.stream = follow.NewStream(follow.StreamOptions{
		Registry: r, Kinds: []schema.GroupResource{podResource}, Freshness: registry.Freshness{Any: true},
		Begin: x.forgetLocked, Receive: x.receiveLocked,
	})
	return x
}

// of returns a node's pods.
func (x *podIndex) of(ctx context.Context, node string) ([]*boundPod, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	err := x.stream.CatchUp(ctx)
	return slices.Collect(maps.Values(x.byNode[node])), err
}

// has tells whether a pod is bound to a node.
func (x *podIndex) has(ctx context.Context, node string, p podName) (bool, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	err := x.stream.CatchUp(ctx)
	return err == nil && x.byNode[node][p] != nil, err
}

func (x *podIndex) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stream.Close()
	x.byNode = nil
}

func (x *podIndex) forgetLocked() { x.byNode = map[string]map[podName]*boundPod{} }

func (x *podIndex) receiveLocked(_ context.Context, kind *resource.Kind, e registry.Event) error {
	if e.Source == nil {
		x.field = slices.IndexFunc(kind.Fields, func(f resource.Field) bool { return f.Label == "spec.nodeName" })
		x.addLocked(e.Object)
		return nil
	}
	now, before := e.Source.Object, e.Source.Previous
	if e.Type == watch.Modified && before.Field(x.field) == now.Field(x.field) {
		return nil
	}
	if before != nil {
		x.removeLocked(before)
	}
	if e.Type != watch.Deleted {
		x.addLocked(now)
	}
	return nil
}

func (x *podIndex) addLocked(o *watchcache.Object) {
	node := o.Field(x.field)
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
	node := o.Field(x.field)
	delete(x.byNode[node], podName{o.Namespace(), o.Name()})
	if len(x.byNode[node]) == 0 {
		delete(x.byNode, node)
	}
}

// use is what the pod uses now; nil if it has gone.
func (p *boundPod) use(ctx context.Context, c *cluster) (*podUse, error) {
	s, err := c.storage(podResource)
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
