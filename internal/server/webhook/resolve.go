package webhook

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// resolver finds the endpoints of services.
type resolver struct {
	registry *registry.Registry

	mu    sync.Mutex // guards known
	known map[port]*endpoints
}

// port is one of a service.
type port struct {
	namespace, name string
	number          int32
}

// endpoints are the addresses behind a port, as the objects of some revisions say. They never change.
type endpoints struct {
	from      []store.Revision
	addresses []string // those of the service's own family
	others    []string
}

// mostKnown bounds what is kept of services, some of which may be gone.
const mostKnown = 1024

// resolve lists the addresses that are ready behind a port of a service, in random order.
func (r *resolver) resolve(ctx context.Context, s *Service) ([]string, error) {
	if r.registry == nil {
		return nil, errors.New("services cannot be called here")
	}
	e, err := r.look(ctx, s, registry.Freshness{Any: true})
	if err != nil || len(e.addresses)+len(e.others) == 0 {
		// What was written a moment ago may not have come yet.
		if e, err = r.look(ctx, s, registry.Freshness{}); err != nil {
			return nil, err
		}
	}
	out := append(shuffled(e.addresses), shuffled(e.others)...)
	if len(out) == 0 {
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", s.Name))
	}
	return out, nil
}

func shuffled(all []string) []string {
	out := slices.Clone(all)
	rand.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// look finds the endpoints in a state that is as fresh as is asked for.
func (r *resolver) look(ctx context.Context, s *Service, f registry.Freshness) (*endpoints, error) {
	storage, err := r.storage("", "services")
	if err != nil {
		return nil, err
	}
	service, err := storage.Get(ctx, s.Namespace, s.Name, f)
	if apierrors.IsNotFound(err) {
		return nil, apierrors.NewNotFound(corev1.Resource("service"), s.Name)
	} else if err != nil {
		return nil, err
	}
	found, err := r.slicesOf(ctx, s, f)
	if err != nil {
		return nil, err
	}
	from := []store.Revision{service.Revision}
	for _, o := range found {
		from = append(from, o.Revision)
	}
	at := port{s.Namespace, s.Name, s.port()}
	r.mu.Lock()
	known := r.known[at]
	r.mu.Unlock()
	if known != nil && slices.Equal(known.from, from) {
		return known, nil
	}
	made, err := r.read(ctx, s, service, found)
	if err != nil {
		return nil, err
	}
	made.from = from
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) >= mostKnown {
		clear(r.known)
	}
	r.known[at] = made
	return made, nil
}

// slicesOf are the endpoint slices of a service or, if it has none, its Endpoints.
func (r *resolver) slicesOf(ctx context.Context, s *Service, f registry.Freshness) ([]*watchcache.Object, error) {
	storage, err := r.storage(discoveryv1.GroupName, "endpointslices")
	if err != nil {
		return nil, err
	}
	list, err := storage.List(ctx, registry.ListQuery{Freshness: f, Selection: registry.Select(
		storage.Kind().Faces[0], s.Namespace, "", labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: s.Name}), nil)})
	if err != nil || len(list.Objects) > 0 {
		return list.Objects, err
	}
	if storage, err = r.storage("", "endpoints"); err != nil {
		return nil, err
	}
	o, err := storage.Get(ctx, s.Namespace, s.Name, f)
	if apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return []*watchcache.Object{o}, nil
}

func (r *resolver) storage(group, of string) (*registry.Storage, error) {
	reg := r.registry
	kind, ok := reg.Catalogue.Kind(schema.GroupResource{Group: group, Resource: of})
	if !ok {
		return nil, fmt.Errorf("%s are not served", of)
	}
	return reg.Storage(kind)
}

// decode makes an object of a group of what is stored.
func decode[T resource.Object](ctx context.Context, r *resolver, group, of string, o *watchcache.Object) (T, error) {
	var none T
	storage, err := r.storage(group, of)
	if err != nil {
		return none, err
	}
	made, err := storage.Kind().Decode(ctx, o.Value(), o.Revision.String())
	if err != nil {
		return none, err
	}
	out, ok := made.(T)
	if !ok {
		return none, fmt.Errorf("a %T is no %T", made, none)
	}
	return out, nil
}

func (r *resolver) read(ctx context.Context, s *Service, stored *watchcache.Object, found []*watchcache.Object) (*endpoints, error) {
	service, err := decode[*corev1.Service](ctx, r, "", "services", stored)
	if err != nil {
		return nil, err
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		return &endpoints{addresses: []string{join(service.Spec.ExternalName, s.port())}}, nil
	}
	i := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == s.port() })
	if i < 0 {
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", s.port(), s.Name))
	}
	name, family := service.Spec.Ports[i].Name, ""
	if len(service.Spec.IPFamilies) > 0 {
		family = string(service.Spec.IPFamilies[0])
	}
	out := &endpoints{}
	for _, o := range found {
		all, err := r.slicesIn(ctx, o)
		if err != nil {
			return nil, err
		}
		for _, slice := range all {
			to := &out.others
			if string(slice.AddressType) == family || family == "" {
				to = &out.addresses
			}
			*to = append(*to, ready(slice, name)...)
		}
	}
	return out, nil
}

// slicesIn reads an endpoint slice, or makes one of each subset of Endpoints.
func (r *resolver) slicesIn(ctx context.Context, o *watchcache.Object) ([]*discoveryv1.EndpointSlice, error) {
	slice, err := decode[*discoveryv1.EndpointSlice](ctx, r, discoveryv1.GroupName, "endpointslices", o)
	if err == nil {
		return []*discoveryv1.EndpointSlice{slice}, nil
	}
	all, other := decode[*corev1.Endpoints](ctx, r, "", "endpoints", o) //nolint:staticcheck // they are still part of the API
	if other != nil {
		return nil, err
	}
	var out []*discoveryv1.EndpointSlice
	for _, subset := range all.Subsets {
		slice := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4}
		for _, p := range subset.Ports {
			slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &p.Name, Port: &p.Port})
		}
		for _, a := range subset.Addresses {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{a.IP}})
		}
		out = append(out, slice)
	}
	return out, nil
}

// ready are the addresses of a slice behind a port that are ready.
func ready(slice *discoveryv1.EndpointSlice, name string) (out []string) {
	for _, p := range slice.Ports {
		if p.Name == nil || *p.Name != name || p.Port == nil {
			continue
		}
		for _, e := range slice.Endpoints {
			if (e.Conditions.Ready == nil || *e.Conditions.Ready) && len(e.Addresses) > 0 {
				out = append(out, join(e.Addresses[0], *p.Port))
			}
		}
	}
	return out
}

func join(host string, port int32) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }
