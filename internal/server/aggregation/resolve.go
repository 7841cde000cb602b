package aggregation

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/watchcache"
)

func groupResource(group, of string) schema.GroupResource {
	return schema.GroupResource{Group: group, Resource: of}
}

// service reads the service of an APIService.
func (a *Aggregator) service(ctx context.Context, ref *v1.ServiceReference) (*corev1.Service, error) {
	storage, err := storageOf(a.o.Registry, "", "services")
	if err != nil {
		return nil, err
	}
	o, err := storage.Get(ctx, ref.Namespace, ref.Name, registry.Freshness{Any: true})
	if err != nil {
		return nil, err
	}
	return decode[*corev1.Service](ctx, storage, o)
}

func decode[T resource.Object](ctx context.Context, s *registry.Storage, o *watchcache.Object) (T, error) {
	made, err := s.Kind().Decode(ctx, o.Value(), o.Revision.String())
	if err != nil {
		var none T
		return none, err
	}
	return made.(T), nil
}

// slicesQuery selects the endpoint slices of a service.
func slicesQuery(s *registry.Storage, ref *v1.ServiceReference) registry.Selection {
	selector := labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: ref.Name})
	return registry.Select(s.Kind().Faces[0], ref.Namespace, "", selector, nil)
}

// slices reads the endpoint slices of a service.
func (a *Aggregator) slices(ctx context.Context, ref *v1.ServiceReference) ([]*discoveryv1.EndpointSlice, error) {
	storage, err := storageOf(a.o.Registry, discoveryv1.GroupName, "endpointslices")
	if err != nil {
		return nil, err
	}
	list, err := storage.List(ctx, registry.ListQuery{Freshness: registry.Freshness{Any: true}, Selection: slicesQuery(storage, ref)})
	if err != nil {
		return nil, err
	}
	var out []*discoveryv1.EndpointSlice
	for _, o := range list.Objects {
		slice, err := decode[*discoveryv1.EndpointSlice](ctx, storage, o)
		if err != nil {
			return nil, err
		}
		out = append(out, slice)
	}
	return out, nil
}
