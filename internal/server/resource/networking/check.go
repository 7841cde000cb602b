package networking

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/millrace/millrace/internal/server/resource/check"
)

// maxController is the longest name of a controller.
const maxController = 250

func checkIngressClass(c *networkingv1.IngressClass) field.ErrorList {
	path := field.NewPath("spec")
	var errs field.ErrorList
	if len(c.Spec.Controller) > maxController {
		errs = append(errs, field.TooLong(path.Child("controller"), c.Spec.Controller, maxController))
	}
	errs = append(errs, validation.IsDomainPrefixedPath(path.Child("controller"), c.Spec.Controller)...)
	p := c.Spec.Parameters
	if p == nil {
		return errs
	}
	path = path.Child("parameters")
	errs = append(errs, checkReference(p.APIGroup, p.Kind, p.Name, path)...)
	if p.Scope == nil {
		return append(errs, field.Required(path.Child("scope"), ""))
	}
	switch at := path.Child("namespace"); *p.Scope {
	case networkingv1.IngressClassParametersReferenceScopeNamespace:
		if p.Namespace == nil {
			errs = append(errs, field.Required(at, "`parameters.scope` is set to 'Namespace'"))
		} else {
			errs = append(errs, check.Invalid(at, *p.Namespace, apivalidation.ValidateNamespaceName(*p.Namespace, false))...)
		}
	case networkingv1.IngressClassParametersReferenceScopeCluster:
		if p.Namespace != nil {
			errs = append(errs, field.Forbidden(at, "`parameters.scope` is set to 'Cluster'"))
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("scope"), *p.Scope, []string{
			networkingv1.IngressClassParametersReferenceScopeCluster, networkingv1.IngressClassParametersReferenceScopeNamespace}))
	}
	return errs
}

func checkIngressClassUpdate(c, old *networkingv1.IngressClass) field.ErrorList {
	errs := check.Immutable(c.Spec.Controller, old.Spec.Controller, field.NewPath("spec", "controller"))
	return append(errs, checkIngressClass(c)...)
}

// ipName requires an IP address in canonical form.
func ipName(name string, _ bool) []string {
	var out []string
	for _, err := range validation.IsValidIP(nil, name) {
		out = append(out, err.Detail)
	}
	return out
}

func checkIPAddress(a *networkingv1.IPAddress) field.ErrorList {
	path, r := field.NewPath("spec", "parentRef"), a.Spec.ParentRef
	if r == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	if r.Group != "" {
		errs = append(errs, check.Subdomain(r.Group, path.Child("group"))...)
	}
	segment := func(name, value string, required bool) {
		if value != "" {
			errs = append(errs, check.Invalid(path.Child(name), value, content.IsPathSegmentName(value))...)
		} else if required {
			errs = append(errs, field.Required(path.Child(name), ""))
		}
	}
	segment("resource", r.Resource, true)
	segment("name", r.Name, true)
	segment("namespace", r.Namespace, false)
	return errs
}

func checkIPAddressUpdate(a, old *networkingv1.IPAddress) field.ErrorList {
	return append(checkIPAddress(a), check.Immutable(a.Spec.ParentRef, old.Spec.ParentRef, field.NewPath("spec", "parentRef"))...)
}

func checkServiceCIDR(c *networkingv1.ServiceCIDR) field.ErrorList {
	path, cidrs := field.NewPath("spec", "cidrs"), c.Spec.CIDRs
	switch len(cidrs) {
	case 0:
		return field.ErrorList{field.Required(path, "at least one CIDR required")}
	case 1:
	case 2:
		if dual, err := netutils.IsDualStackCIDRStrings(cidrs); err != nil || !dual {
			return field.ErrorList{field.Invalid(path, cidrs,
				"may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64")}
		}
	default:
		return field.ErrorList{field.Invalid(path, struct{ CIDRs []string }{cidrs}, "may only hold up to 2 values")}
	}
	var errs field.ErrorList
	for i, cidr := range cidrs {
		errs = append(errs, validation.IsValidCIDR(path.Index(i), cidr)...)
	}
	return errs
}

// checkServiceCIDRUpdate allows only the addition of a second range.
func checkServiceCIDRUpdate(c, old *networkingv1.ServiceCIDR) field.ErrorList {
	now, was, path := c.Spec.CIDRs, old.Spec.CIDRs, field.NewPath("spec", "cidrs")
	if len(now) != len(was) && (len(was) != 1 || len(now) != 2) {
		return field.ErrorList{field.Invalid(path, now, apivalidation.FieldImmutableErrorMsg)}
	}
	var errs field.ErrorList
	for i := range was {
		errs = append(errs, check.Immutable(now[i], was[i], path.Index(i))...)
	}
	if len(now) > len(was) {
		errs = append(errs, checkServiceCIDR(c)...)
	}
	return errs
}
