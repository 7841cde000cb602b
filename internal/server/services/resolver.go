// Package services finds the addresses behind services, for those parts of the server that call them: webhooks and
// aggregated APIs.
package services

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

// Resolver finds the endpoints of services.
type Resolver struct {
	registry *registry.Registry

	mu    sync.Mutex // guards known
	known map[Port]*endpoints
}

// NewResolver returns a Resolver. Without a registry it finds nothing.
func NewResolver(r *registry.Registry) *Resolver {
	return &Resolver{registry: r, known: map[Port]*endpoints{}}
}

// Port is one of a service.
type Port struct {
	Namespace, Name string
	Number          int32
}

// endpoints are the addresses behind a port, as the objects of some revisions say. They never change.
type endpoints struct {
	from      []store.Revision
	addresses []string // those of the service's own family
	others    []string
}

// mostKnown bounds what is kept of services, some of which may be gone.
const mostKnown = 1024

// Resolve lists the addresses that are ready behind a port of a service, in random order. Addresses may be those of
// before while the server's log is late; what is missing is asked for.
func (r *Resolver) Resolve(ctx context.Context, p Port) ([]string, error) {
	if r.registry == nil {
		return nil, errors.New("services cannot be called here")
	}
	e, err := r.look(ctx, p, registry.Freshness{Any: true})
	if err != nil || len(e.addresses)+len(e.others) == 0 {
		// What was written a moment ago may not have come yet.
		if e, err = r.look(ctx, p, registry.Freshness{}); err != nil {
			return nil, err
		}
	}
	out := append(shuffled(e.addresses), shuffled(e.others)...)
	if len(out) == 0 {
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", p.Name))
	}
	return out, nil
}

func shuffled(all []string) []string {
	out := slices.Clone(all)
	rand.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// look finds the endpoints in a state that is as fresh as is asked for.
func (r *Resolver) look(ctx context.Context, p Port, f registry.Freshness) (*endpoints, error) {
	storage, err := r.storage("", "services")
	if err != nil {
		return nil, err
	}
	service, err := storage.Get(ctx, p.Namespace, p.Name, f)
	if apierrors.IsNotFound(err) {
		return nil, apierrors.NewNotFound(corev1.Resource("service"), p.Name)
	} else if err != nil {
		return nil, err
	}
	found, err := r.slicesOf(ctx, p, f)
	if err != nil {
		return nil, err
	}
	from := []store.Revision{service.Revision}
	for _, o := range found {
		from = append(from, o.Revision)
	}
	r.mu.Lock()
	known := r.known[p]
	r.mu.Unlock()
	if known != nil && slices.Equal(known.from, from) {
		return known, nil
	}
	made, err := r.read(ctx, p, service, found)
	if err != nil {
		return nil, err
	}
	made.from = from
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) >= mostKnown {
		clear(r.known)
	}
	r.known[p] = made
	return made, nil
}

// slicesOf are the endpoint slices of a service or, if it has none, its Endpoints.
func (r *Resolver) slicesOf(ctx context.Context, p Port, f registry.Freshness) ([]*watchcache.Object, error) {
	storage, err := r.storage(discoveryv1.GroupName, "endpointslices")
	if err != nil {
		return nil, err
	}
	list, err := storage.List(ctx, registry.ListQuery{Freshness: f, Selection: registry.Select(
		storage.Kind().Faces[0], p.Namespace, "", labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: p.Name}), nil)})
	if err != nil || len(list.Objects) > 0 {
		return list.Objects, err
	}
	if storage, err = r.storage("", "endpoints"); err != nil {
		return nil, err
	}
	o, err := storage.Get(ctx, p.Namespace, p.Name, f)
	if apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return []*watchcache.Object{o}, nil
}

func (r *Resolver) storage(group, of string) (*registry.Storage, error) {
	reg := r.registry
	kind, ok := reg.Catalogue.Kind(schema.GroupResource{Group: group, Resource: of})
	if !ok {
		return nil, fmt.Errorf("%s are not served", of)
	}
	return reg.Storage(kind)
}

// decode makes an object of a group of what is stored.
func decode[T resource.Object](ctx context.Context, r *Resolver, group, of string, o *watchcache.Object) (T, error) {
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

func (r *Resolver) read(ctx context.Context, p Port, stored *watchcache.Object, found []*watchcache.Object) (*endpoints, error) {
	service, err := decode[*corev1.Service](ctx, r, "", "services", stored)
	if err != nil {
		return nil, err
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		return &endpoints{addresses: []string{join(service.Spec.ExternalName, p.Number)}}, nil
	}
	name, listens := PortName(service, p.Number)
	if !listens {
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", p.Number, p.Name))
	}
	family := ""
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
			*to = append(*to, Ready(slice, name)...)
		}
	}
	return out, nil
}

// slicesIn reads an endpoint slice, or makes one of each subset of Endpoints.
func (r *Resolver) slicesIn(ctx context.Context, o *watchcache.Object) ([]*discoveryv1.EndpointSlice, error) {
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

// PortName is the name of a service's port. It returns false if the service has no such port.
func PortName(s *corev1.Service, number int32) (name string, ok bool) {
	i := slices.IndexFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == number })
	if i < 0 {
		return "", false
	}
	return s.Spec.Ports[i].Name, true
}

// Ready are the addresses of a slice behind a port that are ready. A port without a name is one whose name is empty.
func Ready(slice *discoveryv1.EndpointSlice, port string) (out []string) {
	for _, p := range slice.Ports {
		if p.Port == nil || p.Name == nil && port != "" || p.Name != nil && *p.Name != port {
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
