package aggregation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"

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

// addresses are where a service is reached, in random order.
func (a *Aggregator) addresses(ctx context.Context, ref *v1.ServiceReference) ([]string, error) {
	service, err := a.service(ctx, ref)
	if err != nil {
		return nil, err
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		return []string{net.JoinHostPort(service.Spec.ExternalName, strconv.Itoa(int(*ref.Port)))}, nil
	}
	port, ok := portOf(service, *ref.Port)
	if !ok {
		return nil, fmt.Errorf("no service port %d found for service %q", *ref.Port, ref.Name)
	}
	all, err := a.slices(ctx, ref)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, s := range all {
		out = append(out, ready(s, port)...)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no endpoints available for service %q", ref.Name)
	}
	rand.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out, nil
}

// portOf is the name of a service's port.
func portOf(s *corev1.Service, number int32) (name string, ok bool) {
	i := slices.IndexFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == number })
	if i < 0 {
		return "", false
	}
	return s.Spec.Ports[i].Name, true
}

// ready are the addresses of a slice, at a port, that are ready.
func ready(s *discoveryv1.EndpointSlice, port string) []string {
	var out []string
	for _, p := range s.Ports {
		if p.Port == nil || p.Name == nil && port != "" || p.Name != nil && *p.Name != port {
			continue
		}
		for _, e := range s.Endpoints {
			if (e.Conditions.Ready == nil || *e.Conditions.Ready) && len(e.Addresses) > 0 {
				out = append(out, net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*p.Port))))
			}
		}
	}
	return out
}
