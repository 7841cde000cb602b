package discovery

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/millrace/millrace/internal/server/resource/check"
)

// Limits of a slice and of its endpoints.
const (
	maxEndpoints = 1000
	maxAddresses = 100
	maxPorts     = 20000
	maxTopology  = 16
	maxHints     = 8
)

func checkUpdate(s, old *discoveryv1.EndpointSlice) field.ErrorList {
	return append(checkSlice(s, old), check.Immutable(s.AddressType, old.AddressType, field.NewPath("addressType"))...)
}

func checkSlice(s, old *discoveryv1.EndpointSlice) field.ErrorList {
	errs := checkAddressType(s.AddressType, field.NewPath("addressType"))
	known := map[string]bool{}
	if old != nil {
		for i := range old.Endpoints {
			for _, a := range old.Endpoints[i].Addresses {
				known[a] = true
			}
		}
	}
	path := field.NewPath("endpoints")
	if n := len(s.Endpoints); n > maxEndpoints {
		errs = append(errs, field.TooMany(path, n, maxEndpoints))
	} else {
		for i := range s.Endpoints {
			errs = append(errs, checkEndpoint(&s.Endpoints[i], s.AddressType, known, path.Index(i))...)
		}
	}
	return append(errs, checkPorts(s.Ports, field.NewPath("ports"))...)
}

func checkAddressType(t discoveryv1.AddressType, path *field.Path) field.ErrorList {
	if t == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return check.OneOf(t, path, discoveryv1.AddressTypeFQDN, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6)
}

func checkEndpoint(e *discoveryv1.Endpoint, t discoveryv1.AddressType, known map[string]bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	at := path.Child("addresses")
	switch n := len(e.Addresses); {
	case n == 0:
		errs = append(errs, field.Required(at, "must contain at least 1 address"))
	case n > maxAddresses:
		errs = append(errs, field.TooMany(at, n, maxAddresses))
	}
	for i, a := range e.Addresses {
		if !known[a] {
			errs = append(errs, checkAddress(a, t, at, i)...)
		}
	}
	if e.NodeName != nil {
		errs = append(errs, check.Subdomain(*e.NodeName, path.Child("nodeName"))...)
	}
	topology := path.Child("deprecatedTopology")
	if n := len(e.DeprecatedTopology); n > maxTopology {
		errs = append(errs, field.TooMany(topology, n, maxTopology))
	}
	errs = append(errs, metav1validation.ValidateLabels(e.DeprecatedTopology, topology)...)
	if _, there := e.DeprecatedTopology[corev1.LabelHostname]; there {
		errs = append(errs, field.Invalid(topology, e.DeprecatedTopology, "kubernetes.io/hostname may not be specified in deprecatedTopology"))
	}
	if e.Hostname != nil {
		errs = append(errs, check.Label(*e.Hostname, path.Child("hostname"))...)
	}
	if e.Hints != nil {
		errs = append(errs, checkHints(e.Hints, path.Child("hints"))...)
	}
	return errs
}

func checkAddress(a string, t discoveryv1.AddressType, all *field.Path, i int) field.ErrorList {
	path := all.Index(i)
	if t == discoveryv1.AddressTypeFQDN {
		return validation.IsFullyQualifiedDomainName(path, a)
	}
	if t != discoveryv1.AddressTypeIPv4 && t != discoveryv1.AddressTypeIPv6 {
		return nil
	}
	errs := check.IP(a, path, nil)
	if len(errs) > 0 {
		return errs
	}
	if netutils.IsIPv6String(a) != (t == discoveryv1.AddressTypeIPv6) {
		errs = append(errs, field.Invalid(all, a, fmt.Sprintf("must be an %s address", t)))
	}
	return append(errs, check.EndpointIP(a, path)...)
}

func checkHints(h *discoveryv1.EndpointHints, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	zones := path.Child("forZones")
	if n := len(h.ForZones); n > maxHints {
		return field.ErrorList{field.TooMany(zones, n, maxHints)}
	}
	for i, z := range h.ForZones {
		at := zones.Index(i).Child("name")
		if seen[z.Name] {
			errs = append(errs, field.Duplicate(at, z.Name))
		}
		seen[z.Name] = true
		errs = append(errs, check.Invalid(at, z.Name, validation.IsValidLabelValue(z.Name))...)
	}
	clear(seen)
	nodes := path.Child("forNodes")
	if n := len(h.ForNodes); n > maxHints {
		return append(errs, field.TooMany(nodes, n, maxHints))
	}
	for i, n := range h.ForNodes {
		at := nodes.Index(i).Child("name")
		if seen[n.Name] {
			errs = append(errs, field.Duplicate(at, n.Name))
		}
		seen[n.Name] = true
		errs = append(errs, check.Subdomain(n.Name, at)...)
	}
	return errs
}

func checkPorts(ports []discoveryv1.EndpointPort, path *field.Path) field.ErrorList {
	if n := len(ports); n > maxPorts {
		return field.ErrorList{field.TooMany(path, n, maxPorts)}
	}
	var errs field.ErrorList
	names := map[string]bool{}
	for i, p := range ports {
		at := path.Index(i)
		if *p.Name != "" {
			errs = append(errs, check.Label(*p.Name, at.Child("name"))...)
		}
		if names[*p.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), p.Name))
		}
		names[*p.Name] = true
		errs = append(errs, check.OneOf(*p.Protocol, at.Child("protocol"), corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)...)
		if p.AppProtocol != nil {
			errs = append(errs, check.Qualified(*p.AppProtocol, at.Child("appProtocol"))...)
		}
	}
	return errs
}

func warnings(s *discoveryv1.EndpointSlice) []string {
	if s.AddressType == discoveryv1.AddressTypeFQDN {
		return []string{"spec.addressType: FQDN endpoints are deprecated"}
	}
	var out []string
	for i := range s.Endpoints {
		for j, a := range s.Endpoints[i].Addresses {
			out = append(out, validation.GetWarningsForIP(field.NewPath("endpoints").Index(i).Child("addresses").Index(j), a)...)
		}
	}
	return out
}
