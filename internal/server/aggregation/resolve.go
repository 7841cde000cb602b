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

var (
	apiServices     = schema.GroupResource{Group: v1.GroupName, Resource: "apiservices"}
	serviceResource = schema.GroupResource{Resource: "services"}
	sliceResource   = schema.GroupResource{Group: discoveryv1.GroupName, Resource: "endpointslices"}
)

// service reads the service of an APIService.
func (a *Aggregator) service(ctx context.Context, ref *v1.ServiceReference) (*corev1.Service, error) {
	storage, err := storageOf(a.o.Registry, serviceResource)
	if err != nil {
		return nil, err
	}
	o, err := storage.Get(ctx, ref.Namespace, ref.Name, registry.Freshness{Any: true})
	if err != nil {
		return nil, err
	}
	return decode[*corev1.Service](ctx, storage.Kind(), o)
}

func decode[T resource.Object](ctx context.Context, k *resource.Kind, o *watchcache.Object) (T, error) {
	made, err := k.Decode(ctx, o.Value(), o.Revision.String())
	if err != nil {
		var none T
		return none, err
	}
	return made.(T), nil
}

// slicesQuery selects the endpoint slices of a service.
func slicesQuery(k *resource.Kind, ref *v1.ServiceReference) registry.Selection {
	selector := labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: ref.Name})
	return registry.Select(k.Faces[0], ref.Namespace, "", selector, nil)
}

// slices reads the endpoint slices of a service.
func (a *Aggregator) slices(ctx context.Context, ref *v1.ServiceReference) ([]*discoveryv1.EndpointSlice, error) {
	storage, err := storageOf(a.o.Registry, sliceResource)
	if err != nil {
		return nil, err
	}
	list, err := storage.List(ctx, registry.ListQuery{Freshness: registry.Freshness{Any: true}, Selection: slicesQuery(storage.Kind(), ref)})
	if err != nil {
		return nil, err
	}
	var out []*discoveryv1.EndpointSlice
	for _, o := range list.Objects {
		slice, err := decode[*discoveryv1.EndpointSlice](ctx, storage.Kind(), o)
		if err != nil {
			return nil, err
		}
		out = append(out, slice)
	}
	return out, nil
}
