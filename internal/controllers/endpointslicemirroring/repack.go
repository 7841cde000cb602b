package endpointslicemirroring

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// port is a port of an Endpoints object, with all addresses that have it.
type port struct {
	port   corev1.EndpointPort
	ready  map[string]bool // by the keys of addresses
	values map[string]corev1.EndpointAddress
}

// repacked returns subsets in canonical form, as Kubernetes mirrors them: ports with the same addresses are in one
// subset, and an address is there once. Of two statements about an address, that it is not ready counts.
func repacked(all []corev1.EndpointSubset) []corev1.EndpointSubset {
	var out []corev1.EndpointSubset
	places := map[string]int{} // of subsets in out, by their addresses
	for _, p := range portsIn(all) {
		key := p.addresses()
		if i, known := places[key]; known && p.port != portless && len(out[i].Ports) > 0 {
			out[i].Ports = append(out[i].Ports, p.port)
			continue
		}
		places[key] = len(out)
		out = append(out, p.subset())
	}
	return out
}

// portless stands for the ports of a subset that has none.
var portless = corev1.EndpointPort{Port: -1}

// portsIn returns the ports of subsets, in their order.
func portsIn(all []corev1.EndpointSubset) (out []*port) {
	for i := range all {
		ports := all[i].Ports
		if len(ports) == 0 {
			ports = []corev1.EndpointPort{portless}
		}
		for _, one := range ports {
			at := slices.IndexFunc(out, func(p *port) bool { return p.text() == (&port{port: one}).text() })
			if at < 0 {
				at = len(out)
				out = append(out, &port{one, map[string]bool{}, map[string]corev1.EndpointAddress{}})
			}
			out[at].add(all[i].Addresses, true)
			out[at].add(all[i].NotReadyAddresses, false)
		}
	}
	return out
}

func (p *port) text() string {
	app := ""
	if p.port.AppProtocol != nil {
		app = *p.port.AppProtocol
	}
	return fmt.Sprintf("%s/%s/%d/%s", p.port.Name, p.port.Protocol, p.port.Port, app)
}

func (p *port) add(addresses []corev1.EndpointAddress, ready bool) {
	for i := range addresses {
		key := addresses[i].IP
		if ref := addresses[i].TargetRef; ref != nil {
			key += " " + string(ref.UID)
		}
		if before, known := p.ready[key]; !known || before {
			p.ready[key], p.values[key] = ready, addresses[i]
		}
	}
}

// addresses is a text that is the same for ports with the same addresses.
func (p *port) addresses() string {
	var b strings.Builder
	for _, key := range p.keys() {
		fmt.Fprintf(&b, "%s %t\n", key, p.ready[key])
	}
	return b.String()
}

func (p *port) keys() []string {
	keys := make([]string, 0, len(p.ready))
	for key := range p.ready {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, cmp.Compare)
	return keys
}

func (p *port) subset() corev1.EndpointSubset {
	out := corev1.EndpointSubset{}
	if p.port != portless {
		out.Ports = []corev1.EndpointPort{p.port}
	}
	for _, key := range p.keys() {
		if p.ready[key] {
			out.Addresses = append(out.Addresses, p.values[key])
		} else {
			out.NotReadyAddresses = append(out.NotReadyAddresses, p.values[key])
		}
	}
	return out
}
