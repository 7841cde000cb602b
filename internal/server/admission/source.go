package admission

import (
	"context"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// cluster is what the plugins look into.
type cluster struct {
	namespaces      *source[*corev1.Namespace]
	limits          *source[*corev1.LimitRange]
	quotas          *source[*corev1.ResourceQuota]
	accounts        *source[*corev1.ServiceAccount]
	nodes           *source[*corev1.Node]
	pods            *source[*corev1.Pod]
	priorityClasses *source[*schedulingv1.PriorityClass]
	runtimeClasses  *source[*nodev1.RuntimeClass]
	storageClasses  *source[*storagev1.StorageClass]
	ingressClasses  *source[*networkingv1.IngressClass]
	deviceClasses   *source[*resourcev1.DeviceClass]
	claims          *source[*resourcev1.ResourceClaim]
	charges         charges
}

func newCluster(r *registry.Registry) *cluster {
	return &cluster{
		namespaces:      from[*corev1.Namespace](r, "", "namespaces"),
		limits:          from[*corev1.LimitRange](r, "", "limitranges"),
		quotas:          from[*corev1.ResourceQuota](r, "", "resourcequotas"),
		accounts:        from[*corev1.ServiceAccount](r, "", "serviceaccounts"),
		nodes:           from[*corev1.Node](r, "", "nodes"),
		pods:            from[*corev1.Pod](r, "", "pods"),
		priorityClasses: from[*schedulingv1.PriorityClass](r, "scheduling.k8s.io", "priorityclasses"),
		runtimeClasses:  from[*nodev1.RuntimeClass](r, "node.k8s.io", "runtimeclasses"),
		storageClasses:  from[*storagev1.StorageClass](r, "storage.k8s.io", "storageclasses"),
		ingressClasses:  from[*networkingv1.IngressClass](r, "networking.k8s.io", "ingressclasses"),
		deviceClasses:   from[*resourcev1.DeviceClass](r, resourcev1.GroupName, "deviceclasses"),
		claims:          from[*resourcev1.ResourceClaim](r, resourcev1.GroupName, "resourceclaims"),
	}
}

// source reads objects of one kind. It decodes each version once; what it returns must not be changed.
type source[P resource.Object] struct {
	registry *registry.Registry
	resource schema.GroupResource
	found    atomic.Pointer[registry.Storage]

	mu      sync.RWMutex // guards decoded
	decoded map[string]version[P]
}

type version[P resource.Object] struct {
	revision store.Revision
	object   P
}

// mostDecoded bounds what is kept: objects that have been deleted are not told from others.
const mostDecoded = 4096

func from[P resource.Object](r *registry.Registry, group, of string) *source[P] {
	return &source[P]{registry: r, resource: schema.GroupResource{Group: group, Resource: of}, decoded: map[string]version[P]{}}
}

// storage is nil if there is no such kind.
func (s *source[P]) storage() (*registry.Storage, error) {
	if found := s.found.Load(); found != nil {
		return found, nil
	}
	r := s.registry
	kind, ok := r.Catalogue.Kind(s.resource)
	if !ok {
		return nil, nil
	}
	found, err := r.Storage(kind)
	if err == nil {
		s.found.Store(found)
	}
	return found, err
}

// get reads one object.
func (s *source[P]) get(ctx context.Context, namespace, name string) (P, error) {
	storage, o, err := s.find(ctx, namespace, name)
	if err != nil {
		var none P
		return none, err
	}
	return s.decode(ctx, storage, o)
}

// find finds one object: in the cache if it is there, and in the newest state before it is said to be missing.
func (s *source[P]) find(ctx context.Context, namespace, name string) (*registry.Storage, *watchcache.Object, error) {
	storage, err := s.storage()
	if err != nil {
		return nil, nil, err
	}
	if storage == nil {
		return nil, nil, apierrors.NewNotFound(s.resource, name)
	}
	o, err := storage.Get(ctx, namespace, name, registry.Freshness{Any: true})
	if apierrors.IsNotFound(err) {
		o, err = storage.Get(ctx, namespace, name, registry.Freshness{})
	}
	return storage, o, err
}

// newest reads the newest state of one object, from the store.
func (s *source[P]) newest(ctx context.Context, namespace, name string) (P, error) {
	var none P
	storage, err := s.storage()
	if err != nil {
		return none, err
	}
	if storage == nil {
		return none, apierrors.NewNotFound(s.resource, name)
	}
	o, err := storage.Get(ctx, namespace, name, registry.Freshness{Stored: true})
	if err != nil {
		return none, err
	}
	return s.decode(ctx, storage, o)
}

// list reads what the cache has of a namespace, or of all if it is empty.
func (s *source[P]) list(ctx context.Context, namespace string) ([]P, error) {
	storage, err := s.storage()
	if err != nil || storage == nil || storage.Empty() {
		return nil, err
	}
	list, err := storage.List(ctx, registry.ListQuery{Selection: registry.Selection{Namespace: namespace}, Freshness: registry.Freshness{Any: true}})
	if err != nil || len(list.Objects) == 0 {
		return nil, err
	}
	out := make([]P, 0, len(list.Objects))
	for _, o := range list.Objects {
		p, err := s.decode(ctx, storage, o)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

func (s *source[P]) decode(ctx context.Context, storage *registry.Storage, o *watchcache.Object) (P, error) {
	s.mu.RLock()
	known, ok := s.decoded[o.Key]
	s.mu.RUnlock()
	if ok && known.revision == o.Revision {
		return known.object, nil
	}
	decoded, err := storage.Kind().Decode(ctx, o.Value(), o.Revision.String())
	if err != nil {
		var none P
		return none, apierrors.NewInternalError(err)
	}
	p := decoded.(P)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.decoded) >= mostDecoded {
		clear(s.decoded)
	}
	s.decoded[o.Key] = version[P]{o.Revision, p}
	return p, nil
}
