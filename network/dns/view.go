package dns

import (
	"cmp"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/util/watchlist"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

// service is what the zone needs of a Service.
type service struct {
	namespace, name string
	addresses       []netip.Addr // of the cluster
	headless        bool
	external        string // the name that it stands for, fully qualified
	ports           []port
}

// port is a port of a service or of a slice, in the words of the zone: lower case.
type port struct {
	name, protocol string
	number         uint16
}

// endpoints is what the zone needs of an EndpointSlice.
type endpoints struct {
	service string // namespace/name
	targets []target
	ports   []port
}

// target is an endpoint that is ready.
type target struct {
	address netip.Addr
	host    string // its label in the zone
}

// The indexes.
var (
	serviceByAddress   = informer.NewIndex(func(s *service) []string { return texts(s.addresses) })
	endpointsByService = informer.NewIndex(func(e *endpoints) []string { return []string{e.service} })
	endpointsByAddress = informer.NewIndex((*endpoints).addresses)
)

// view is the informers that the zone reads.
type view struct {
	services   *informer.Shared[*service]
	endpoints  *informer.Shared[*endpoints]
	namespaces *informer.Shared[struct{}]
}

func newView(c *loop.Clients) view {
	paged := watchlist.DoesClientNotSupportWatchListSemantics(c.Kube)
	return view{
		services: informer.ShareProjection(c.Informers, informer.For(c.Kube.CoreV1().Services("")), serviceOf, informer.Options[*service]{
			Name: "dns services", Logger: c.Log, DisableStreaming: paged,
			Indexes: []*informer.Index[*service]{serviceByAddress},
		}),
		endpoints: informer.ShareProjection(c.Informers, informer.For(c.Kube.DiscoveryV1().EndpointSlices("")), endpointsOf, informer.Options[*endpoints]{
			Name: "dns endpoints", Logger: c.Log, DisableStreaming: paged,
			Indexes: []*informer.Index[*endpoints]{endpointsByService, endpointsByAddress},
		}),
		namespaces: informer.ShareProjection(c.Informers, informer.For(c.Kube.CoreV1().Namespaces()), func(*corev1.Namespace) struct{} { return struct{}{} },
			informer.Options[struct{}]{Name: "dns namespaces", Logger: c.Log, DisableStreaming: paged}),
	}
}

func (v view) ready() bool {
	return v.services.HasSynced() && v.endpoints.HasSynced() && v.namespaces.HasSynced()
}

func serviceOf(s *corev1.Service) *service {
	out := &service{namespace: s.Namespace, name: s.Name}
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		out.external = strings.ToLower(strings.TrimSuffix(s.Spec.ExternalName, ".")) + "."
		return out
	}
	out.headless = s.Spec.ClusterIP == corev1.ClusterIPNone
	for _, text := range s.Spec.ClusterIPs {
		if a, err := netip.ParseAddr(text); err == nil {
			out.addresses = append(out.addresses, a)
		}
	}
	for _, p := range s.Spec.Ports {
		out.ports = append(out.ports, port{strings.ToLower(p.Name), protocol(p.Protocol), uint16(p.Port)})
	}
	return out
}

func endpointsOf(s *discoveryv1.EndpointSlice) *endpoints {
	out := &endpoints{service: s.Namespace + "/" + s.Labels[discoveryv1.LabelServiceName]}
	if s.AddressType == discoveryv1.AddressTypeFQDN || belongsToAddress(s) {
		return out
	}
	for _, e := range s.Endpoints {
		if e.Conditions.Ready != nil && !*e.Conditions.Ready || len(e.Addresses) == 0 {
			continue
		}
		address, err := netip.ParseAddr(e.Addresses[0]) // the others have no meaning
		if err != nil {
			continue
		}
		host := dashed(address)
		if e.Hostname != nil && *e.Hostname != "" {
			host = strings.ToLower(*e.Hostname)
		}
		out.targets = append(out.targets, target{address, host})
	}
	for _, p := range s.Ports {
		if p.Port == nil {
			continue
		}
		var name string
		if p.Name != nil {
			name = strings.ToLower(*p.Name)
		}
		proto := corev1.ProtocolTCP
		if p.Protocol != nil {
			proto = *p.Protocol
		}
		out.ports = append(out.ports, port{name, protocol(proto), uint16(*p.Port)})
	}
	return out
}

// controllerName is who makes the slices of services with a selector.
const controllerName = "endpointslice-controller.k8s.io"

// belongsToAddress says whether a slice is of a service with an address, whose endpoints have no names: in a large cluster these are
// nearly all endpoints. Only Kubernetes' controller is trusted to mark the slices of headless services.
func belongsToAddress(s *discoveryv1.EndpointSlice) bool {
	_, headless := s.Labels[corev1.IsHeadlessService]
	return !headless && s.Labels[discoveryv1.LabelManagedBy] == controllerName
}

func (e *endpoints) addresses() []string {
	out := make([]string, len(e.targets))
	for i, t := range e.targets {
		out[i] = t.address.String()
	}
	return out
}

// protocol is the label's word without its underscore.
func protocol(p corev1.Protocol) string {
	return strings.ToLower(string(cmp.Or(p, corev1.ProtocolTCP)))
}

// dashed is the label of an address: 10.1.2.3 is 10-1-2-3, 2001:db8::1 is 2001-db8--1.
func dashed(a netip.Addr) string {
	return strings.NewReplacer(".", "-", ":", "-").Replace(a.String())
}

// undashed is the address of such a label.
func undashed(label string) (netip.Addr, bool) {
	if a, err := netip.ParseAddr(strings.ReplaceAll(label, "-", ".")); err == nil {
		return a, true
	}
	a, err := netip.ParseAddr(strings.ReplaceAll(label, "-", ":"))
	return a, err == nil
}

func texts(addresses []netip.Addr) []string {
	out := make([]string, len(addresses))
	for i, a := range addresses {
		out[i] = a.String()
	}
	return out
}
