package endpointslicemirroring

import (
	"maps"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/controllers/internal/slice"
)

// maxEndpoints is the maximum number of addresses of one subset that are mirrored.
const maxEndpoints = 1000

// mirror returns the slices for an Endpoints object: one for each family and set of ports.
func mirror(e *corev1.Endpoints) []*discoveryv1.EndpointSlice {
	var all []*discoveryv1.EndpointSlice
	subsets := repacked(e.Subsets)
	for i := range subsets {
		subset := &subsets[i]
		ports := portsOf(subset.Ports)
		left := maxEndpoints
		add := func(addresses []corev1.EndpointAddress, ready bool) {
			for j := range addresses {
				family, known := familyOf(addresses[j].IP)
				if !known || left == 0 {
					continue
				}
				left--
				all = with(all, e, family, ports, endpointOf(&addresses[j], ready))
			}
		}
		add(subset.Addresses, true)
		add(subset.NotReadyAddresses, false)
	}
	return all
}

// with adds an endpoint to the slice for its family and ports.
func with(
	all []*discoveryv1.EndpointSlice, e *corev1.Endpoints, family discoveryv1.AddressType, ports []discoveryv1.EndpointPort,
	endpoint discoveryv1.Endpoint,
) []*discoveryv1.EndpointSlice {
	for _, known := range all {
		if known.AddressType == family && slice.PortsText(known.Ports) == slice.PortsText(ports) && len(known.Endpoints) < maxEndpoints {
			known.Endpoints = append(known.Endpoints, endpoint)
			return all
		}
	}
	return append(all, &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: e.Name + "-", Namespace: e.Namespace, Labels: labelsOf(e), Annotations: annotationsOf(e),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(e, corev1.SchemeGroupVersion.WithKind("Endpoints"))},
		},
		AddressType: family, Ports: ports, Endpoints: []discoveryv1.Endpoint{endpoint},
	})
}

func familyOf(ip string) (discoveryv1.AddressType, bool) {
	address, err := netip.ParseAddr(ip)
	switch {
	case err != nil:
		return "", false
	case address.Is6() && !address.Is4In6():
		return discoveryv1.AddressTypeIPv6, true
	}
	return discoveryv1.AddressTypeIPv4, true
}

func endpointOf(a *corev1.EndpointAddress, ready bool) discoveryv1.Endpoint {
	endpoint := discoveryv1.Endpoint{
		Addresses:  []string{a.IP},
		Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		TargetRef:  a.TargetRef,
		NodeName:   a.NodeName,
	}
	if a.Hostname != "" {
		endpoint.Hostname = &a.Hostname
	}
	return endpoint
}

func portsOf(ports []corev1.EndpointPort) []discoveryv1.EndpointPort {
	out := []discoveryv1.EndpointPort{}
	for i := range ports {
		p := ports[i]
		out = append(out, discoveryv1.EndpointPort{Name: &p.Name, Port: &p.Port, Protocol: &p.Protocol, AppProtocol: p.AppProtocol})
	}
	return out
}

func labelsOf(e *corev1.Endpoints) map[string]string {
	out := map[string]string{}
	maps.Copy(out, e.Labels)
	out[discoveryv1.LabelServiceName], out[discoveryv1.LabelManagedBy] = e.Name, managedBy
	return out
}

// annotationsOf leaves out annotations that only concern the Endpoints object.
func annotationsOf(e *corev1.Endpoints) map[string]string {
	out := maps.Clone(e.Annotations)
	delete(out, corev1.LastAppliedConfigAnnotation)
	delete(out, corev1.EndpointsLastChangeTriggerTime)
	if len(out) == 0 {
		return nil
	}
	return out
}

// planFor compares the existing slices with those that should exist.
func planFor(existing, wanted []*discoveryv1.EndpointSlice) slice.Plan {
	var p slice.Plan
	taken := map[*discoveryv1.EndpointSlice]bool{}
	for _, w := range wanted {
		old := counterpart(existing, w, taken)
		if old == nil {
			p.Create = append(p.Create, w)
			continue
		}
		taken[old] = true
		if !alike(old, w) {
			w.ObjectMeta.Name, w.UID, w.ResourceVersion = old.Name, old.UID, old.ResourceVersion
			p.Update = append(p.Update, w)
		}
	}
	for _, old := range existing {
		if !taken[old] && old.DeletionTimestamp == nil {
			p.Delete = append(p.Delete, old)
		}
	}
	return p
}

// counterpart finds the existing slice to be changed into a wanted one: one with the same ports or, if there is none,
// any. A slice's family cannot change.
func counterpart(
	existing []*discoveryv1.EndpointSlice, wanted *discoveryv1.EndpointSlice, taken map[*discoveryv1.EndpointSlice]bool,
) *discoveryv1.EndpointSlice {
	var other *discoveryv1.EndpointSlice
	for _, old := range existing {
		if taken[old] || old.DeletionTimestamp != nil || old.AddressType != wanted.AddressType {
			continue
		}
		if slice.PortsText(old.Ports) == slice.PortsText(wanted.Ports) {
			return old
		}
		other = old
	}
	return other
}

func alike(a, b *discoveryv1.EndpointSlice) bool {
	return maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) &&
		apiequality.Semantic.DeepEqual(a.OwnerReferences, b.OwnerReferences) &&
		slice.PortsText(a.Ports) == slice.PortsText(b.Ports) && apiequality.Semantic.DeepEqual(a.Endpoints, b.Endpoints)
}
