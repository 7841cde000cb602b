package dns

import (
	"iter"
	"net/netip"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/util/watchlist"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

// service is the part of a Service that the zone needs. The informer has its namespace and name.
type service struct {
	addresses []netip.Addr // cluster IPs
	traits    unique.Handle[traits]
}

// traits are the part of a service that it has in common with many others: they share one copy.
type traits struct {
	headless bool
	external string // the external name, fully qualified
	ports    portList
}

// endpoints is the part of an EndpointSlice that the zone needs.
type endpoints struct {
	service string // namespace/name
	targets []target
	ports   unique.Handle[portList]
}

// target is a ready endpoint.
type target struct {
	address netip.Addr
	host    string // its label in the zone
}

// Indexes of the informers.
var (
	serviceByAddress   = informer.NewIndex(func(s service) []string { return texts(s.addresses) })
	endpointsByService = informer.NewIndex(func(e *endpoints) []string { return []string{e.service} })
	endpointsByAddress = informer.NewIndex((*endpoints).addresses)
)

// view has the informers that the zone reads.
type view struct {
	services   *informer.Shared[service]
	slices     []*informer.Shared[*endpoints]
	namespaces *informer.Shared[struct{}]
}

func newView(c *loop.Clients) view {
	paged := watchlist.DoesClientNotSupportWatchListSemantics(c.Kube)
	v := view{
		services: informer.ShareProjection(c.Informers, informer.For(c.Kube.CoreV1().Services("")), serviceOf, informer.Options[service]{
			Name: "dns services", Logger: c.Log, DisableStreaming: paged,
			Indexes: []*informer.Index[service]{serviceByAddress},
		}),
		namespaces: informer.ShareProjection(c.Informers, informer.For(c.Kube.CoreV1().Namespaces()), func(*corev1.Namespace) struct{} { return struct{}{} },
			informer.Options[struct{}]{Name: "dns namespaces", Logger: c.Log, DisableStreaming: paged}),
	}
	for _, selector := range sliceSelectors {
		v.slices = append(v.slices, informer.ShareProjection(c.Informers, informer.For(c.Kube.DiscoveryV1().EndpointSlices("")), endpointsOf, informer.Options[*endpoints]{
			Name: "dns endpoints", Logger: c.Log, DisableStreaming: paged, LabelSelector: selector,
			Indexes: []*informer.Index[*endpoints]{endpointsByService, endpointsByAddress},
		}))
	}
	return v
}

// sliceSelectors select the slices whose endpoints have names. Those of services with a cluster IP have none: in a
// large cluster these are nearly all slices, and they change most often. Only Kubernetes' controller is trusted to
// label the slices of headless services. No selector can say "or", so there are two, and a slice has only one of them.
var sliceSelectors = []string{
	corev1.IsHeadlessService,
	"!" + corev1.IsHeadlessService + "," + discoveryv1.LabelManagedBy + "!=endpointslice-controller.k8s.io",
}

func (v view) ready() bool {
	for _, s := range v.slices {
		if !s.HasSynced() {
			return false
		}
	}
	return v.services.HasSynced() && v.namespaces.HasSynced()
}

// endpointsBy ranges over the slices under a value of an index.
func (v view) endpointsBy(index *informer.Index[*endpoints], value string) iter.Seq[*endpoints] {
	return func(yield func(*endpoints) bool) {
		for _, s := range v.slices {
			for e := range s.By(index, value) {
				if !yield(e) {
					return
				}
			}
		}
	}
}

func serviceOf(s *corev1.Service) service {
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		return service{traits: unique.Make(traits{external: strings.ToLower(strings.TrimSuffix(s.Spec.ExternalName, ".")) + "."})}
	}
	var addresses []netip.Addr
	for _, text := range s.Spec.ClusterIPs {
		if a, err := netip.ParseAddr(text); err == nil {
			addresses = append(addresses, a)
		}
	}
	var ports []port
	for _, p := range s.Spec.Ports {
		ports = append(ports, port{strings.ToLower(p.Name), protocol(p.Protocol), uint16(p.Port)})
	}
	return service{addresses, unique.Make(traits{headless: s.Spec.ClusterIP == corev1.ClusterIPNone, ports: listPorts(ports)})}
}

func endpointsOf(s *discoveryv1.EndpointSlice) *endpoints {
	out := &endpoints{service: s.Namespace + "/" + s.Labels[discoveryv1.LabelServiceName]}
	if s.AddressType == discoveryv1.AddressTypeFQDN {
		out.ports = unique.Make(portList(""))
		return out
	}
	var ports []port
	for _, e := range s.Endpoints {
		if e.Conditions.Ready != nil && !*e.Conditions.Ready || len(e.Addresses) == 0 {
			continue
		}
		address, err := netip.ParseAddr(e.Addresses[0]) // Kubernetes defines only the first address
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
		ports = append(ports, port{name, protocol(proto), uint16(*p.Port)})
	}
	out.ports = unique.Make(listPorts(ports))
	return out
}

func (e *endpoints) addresses() []string {
	out := make([]string, len(e.targets))
	for i, t := range e.targets {
		out[i] = t.address.String()
	}
	return out
}

// dashed returns the label of an address: 10.1.2.3 is 10-1-2-3, 2001:db8::1 is 2001-db8--1.
func dashed(a netip.Addr) string {
	return strings.NewReplacer(".", "-", ":", "-").Replace(a.String())
}

// undashed returns the address of such a label.
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
