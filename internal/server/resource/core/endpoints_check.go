package core

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource/check"
)

func checkEndpoints(_ context.Context, e *corev1.Endpoints) field.ErrorList {
	return checkEndpointsSince(e, nil)
}

func checkEndpointsUpdate(_ context.Context, e, old *corev1.Endpoints) field.ErrorList {
	return checkEndpointsSince(e, old)
}

func checkEndpointsSince(e, old *corev1.Endpoints) field.ErrorList {
	var errs field.ErrorList
	if at, there := e.Annotations[corev1.EndpointsLastChangeTriggerTime]; there {
		if _, err := time.Parse(time.RFC3339Nano, at); err != nil {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "annotations").Key(corev1.EndpointsLastChangeTriggerTime), at, err.Error()))
		}
	}
	var known []string
	if old != nil {
		eachAddress(old, func(a *corev1.EndpointAddress, _ *field.Path) { known = append(known, a.IP) })
	}
	for i := range e.Subsets {
		s, path := &e.Subsets[i], field.NewPath("subsets").Index(i)
		if len(s.Addresses)+len(s.NotReadyAddresses) == 0 {
			errs = append(errs, field.Required(path, "must specify `addresses` or `notReadyAddresses`"))
		}
		addressesOf(s, path, func(a *corev1.EndpointAddress, at *field.Path) {
			errs = append(errs, checkEndpointAddress(a, known, at)...)
		})
		for j := range s.Ports {
			errs = append(errs, checkEndpointPort(&s.Ports[j], len(s.Ports) > 1, path.Child("ports").Index(j))...)
		}
	}
	return errs
}

func eachAddress(e *corev1.Endpoints, do func(*corev1.EndpointAddress, *field.Path)) {
	for i := range e.Subsets {
		addressesOf(&e.Subsets[i], field.NewPath("subsets").Index(i), do)
	}
}

func addressesOf(s *corev1.EndpointSubset, path *field.Path, do func(*corev1.EndpointAddress, *field.Path)) {
	for i := range s.Addresses {
		do(&s.Addresses[i], path.Child("addresses").Index(i))
	}
	for i := range s.NotReadyAddresses {
		do(&s.NotReadyAddresses[i], path.Child("notReadyAddresses").Index(i))
	}
}

func checkEndpointAddress(a *corev1.EndpointAddress, known []string, path *field.Path) field.ErrorList {
	errs := check.IP(a.IP, path.Child("ip"), known)
	if a.Hostname != "" {
		errs = append(errs, check.Label(a.Hostname, path.Child("hostname"))...)
	}
	if a.NodeName != nil {
		errs = append(errs, check.Subdomain(*a.NodeName, path.Child("nodeName"))...)
	}
	return append(errs, check.EndpointIP(a.IP, path.Child("ip"))...)
}

func checkEndpointPort(p *corev1.EndpointPort, named bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case p.Name == "" && named:
		errs = append(errs, field.Required(path.Child("name"), ""))
	case p.Name != "":
		errs = append(errs, check.Label(p.Name, path.Child("name"))...)
	}
	errs = append(errs, check.Port(p.Port, path.Child("port"))...)
	errs = append(errs, check.OneOf(p.Protocol, path.Child("protocol"), corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)...)
	if p.AppProtocol != nil {
		errs = append(errs, check.Qualified(*p.AppProtocol, path.Child("appProtocol"))...)
	}
	return errs
}

func endpointsWarnings(e, _ *corev1.Endpoints) []string {
	var out []string
	eachAddress(e, func(a *corev1.EndpointAddress, path *field.Path) {
		out = append(out, validation.GetWarningsForIP(path.Child("ip"), a.IP)...)
	})
	return out
}
