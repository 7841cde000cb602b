package attributes

import (
	"context"
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// Cluster is where requests look up the namespaces of their objects. What this server has acknowledged is seen; if the
// store is shared, also what others have.
type Cluster struct {
	Registry *registry.Registry
	Shared   bool

	mu      sync.RWMutex // guards decoded
	decoded map[string]versionOfNamespace
}

type versionOfNamespace struct {
	revision store.Revision
	object   *corev1.Namespace
}

// mostDecoded bounds how many namespaces are kept.
const mostDecoded = 1024

var errNoNamespaces = errors.New("namespaces are not served")

func (c *Cluster) find(ctx context.Context, name string) (*registry.Storage, *watchcache.Object, error) {
	r := c.Registry
	kind, ok := r.Catalogue.Kind(schema.GroupResource{Resource: "namespaces"})
	if !ok {
		return nil, nil, errNoNamespaces
	}
	s, err := r.Storage(kind)
	if err != nil {
		return nil, nil, err
	}
	o, err := Read(ctx, r, s, "", name, c.Shared)
	return s, o, err
}

// Read finds an object in a state that has all that was acknowledged, as far as this server or, if the store is shared,
// any other has acknowledged it. Nothing is said to be missing before the store was asked.
func Read(ctx context.Context, r *registry.Registry, s *registry.Storage, namespace, name string, shared bool) (*watchcache.Object, error) {
	if !shared {
		if wrote := s.Wrote(); wrote > r.Cache.Revision() {
			if err := r.Cache.WaitFor(ctx, wrote); err != nil {
				return nil, err
			}
		}
		if o, err := s.Get(ctx, namespace, name, registry.Freshness{Any: true}); !apierrors.IsNotFound(err) {
			return o, err
		}
	}
	return s.Get(ctx, namespace, name, registry.Freshness{})
}

func (c *Cluster) namespaceLabels(ctx context.Context, name string) (labels.Labels, error) {
	_, o, err := c.find(ctx, name)
	if err != nil {
		return nil, err
	}
	return o.Labels, nil
}

func (c *Cluster) namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	s, o, err := c.find(ctx, name)
	if err != nil {
		return nil, err
	}
	c.mu.RLock()
	known, ok := c.decoded[name]
	c.mu.RUnlock()
	if ok && known.revision == o.Revision {
		return known.object, nil
	}
	made, err := s.Kind().Decode(ctx, o.Value(), o.Revision.String())
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	n := made.(*corev1.Namespace)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.decoded == nil || len(c.decoded) >= mostDecoded {
		c.decoded = map[string]versionOfNamespace{}
	}
	c.decoded[name] = versionOfNamespace{o.Revision, n}
	return n, nil
}
