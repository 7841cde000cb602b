package networking

import (
	"fmt"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/millrace/millrace/internal/server/resource/check"
)

// classAnnotation named the class before there was a field for it.
const classAnnotation = "kubernetes.io/ingress.class"

func checkIngress(i *networkingv1.Ingress) field.ErrorList {
	errs := checkIngressSpec(&i.Spec, field.NewPath("spec"))
	class, annotated := i.Annotations[classAnnotation]
	if annotated && i.Spec.IngressClassName != nil && class != *i.Spec.IngressClassName {
		errs = append(errs, field.Invalid(field.NewPath("annotations").Child(classAnnotation), class, "must match `ingressClassName` when both are specified"))
	}
	return errs
}

func checkIngressUpdate(i, _ *networkingv1.Ingress) field.ErrorList {
	return checkIngressSpec(&i.Spec, field.NewPath("spec"))
}

func checkIngressSpec(s *networkingv1.IngressSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(s.Rules) == 0 && s.DefaultBackend == nil {
		errs = append(errs, field.Invalid(path, s.Rules, "either `defaultBackend` or `rules` must be specified"))
	}
	if s.DefaultBackend != nil {
		errs = append(errs, checkBackend(s.DefaultBackend, path.Child("defaultBackend"))...)
	}
	for i := range s.Rules {
		errs = append(errs, checkIngressRule(&s.Rules[i], path.Child("rules").Index(i))...)
	}
	for i := range s.TLS {
		errs = append(errs, checkTLS(&s.TLS[i], path.Child("tls").Index(i))...)
	}
	if s.IngressClassName != nil {
		errs = append(errs, check.Subdomain(*s.IngressClassName, path.Child("ingressClassName"))...)
	}
	return errs
}

func checkIngressRule(r *networkingv1.IngressRule, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if r.Host != "" {
		if netutils.ParseIPSloppy(r.Host) != nil {
			errs = append(errs, field.Invalid(path.Child("host"), r.Host, "must be a DNS name, not an IP address"))
		}
		errs = append(errs, checkHost(r.Host, path.Child("host"))...)
	}
	if r.HTTP == nil {
		return errs
	}
	paths := path.Child("http", "paths")
	if len(r.HTTP.Paths) == 0 {
		errs = append(errs, field.Required(paths, ""))
	}
	for i := range r.HTTP.Paths {
		errs = append(errs, checkHTTPPath(&r.HTTP.Paths[i], paths.Index(i))...)
	}
	return errs
}

// checkHost requires a DNS name, whose first label may be a wildcard.
func checkHost(host string, path *field.Path) field.ErrorList {
	if strings.Contains(host, "*") {
		return check.Invalid(path, host, validation.IsWildcardDNS1123Subdomain(host))
	}
	return check.Subdomain(host, path)
}

// A path must not contain the former or end with the latter, because a proxy might rewrite it to another path.
var (
	badSequences = []string{"//", "/./", "/../", "%2f", "%2F"}
	badEndings   = []string{"/..", "/."}
)

func checkHTTPPath(p *networkingv1.HTTPIngressPath, path *field.Path) field.ErrorList {
	if p.PathType == nil {
		return field.ErrorList{field.Required(path.Child("pathType"), "pathType must be specified")}
	}
	var errs field.ErrorList
	at := path.Child("path")
	absolute := func(is bool) {
		if !is {
			errs = append(errs, field.Invalid(at, p.Path, "must be an absolute path"))
		}
	}
	switch *p.PathType {
	case networkingv1.PathTypeExact, networkingv1.PathTypePrefix:
		absolute(strings.HasPrefix(p.Path, "/"))
		for _, bad := range badSequences {
			if strings.Contains(p.Path, bad) {
				errs = append(errs, field.Invalid(at, p.Path, fmt.Sprintf("must not contain '%s'", bad)))
			}
		}
		for _, bad := range badEndings {
			if strings.HasSuffix(p.Path, bad) {
				errs = append(errs, field.Invalid(at, p.Path, fmt.Sprintf("cannot end with '%s'", bad)))
			}
		}
	case networkingv1.PathTypeImplementationSpecific:
		absolute(p.Path == "" || strings.HasPrefix(p.Path, "/"))
	default:
		errs = append(errs, field.NotSupported(path.Child("pathType"), *p.PathType,
			[]networkingv1.PathType{networkingv1.PathTypeExact, networkingv1.PathTypeImplementationSpecific, networkingv1.PathTypePrefix}))
	}
	return append(errs, checkBackend(&p.Backend, path.Child("backend"))...)
}

func checkBackend(b *networkingv1.IngressBackend, path *field.Path) field.ErrorList {
	switch {
	case b.Resource != nil && b.Service != nil:
		return field.ErrorList{field.Invalid(path, "", "cannot set both resource and service backends")}
	case b.Resource != nil:
		return checkReference(b.Resource.APIGroup, b.Resource.Kind, b.Resource.Name, path.Child("resource"))
	case b.Service == nil:
		return field.ErrorList{field.Invalid(path, "", "resource or service backend is required")}
	}
	var errs field.ErrorList
	if at := path.Child("service", "name"); b.Service.Name == "" {
		errs = append(errs, field.Required(at, ""))
	} else {
		errs = append(errs, check.Invalid(at, b.Service.Name, apivalidation.NameIsDNSLabel(b.Service.Name, false))...)
	}
	switch port := b.Service.Port; {
	case port.Name != "" && port.Number != 0:
		errs = append(errs, field.Invalid(path, "", "cannot set both port name & port number"))
	case port.Name != "":
		errs = append(errs, check.Invalid(path.Child("service", "port", "name"), port.Name, validation.IsValidPortName(port.Name))...)
	case port.Number != 0:
		errs = append(errs, check.Port(port.Number, path.Child("service", "port", "number"))...)
	default:
		errs = append(errs, field.Required(path, "port name or number is required"))
	}
	return errs
}

// checkReference requires a kind, a name and optionally a group.
func checkReference(group *string, kind, name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if group != nil {
		errs = append(errs, check.Subdomain(*group, path.Child("apiGroup"))...)
	}
	for _, part := range []struct{ what, value string }{{"kind", kind}, {"name", name}} {
		if part.value == "" {
			errs = append(errs, field.Required(path.Child(part.what), ""))
		} else {
			errs = append(errs, check.Invalid(path.Child(part.what), part.value, content.IsPathSegmentName(part.value))...)
		}
	}
	return errs
}

func checkTLS(t *networkingv1.IngressTLS, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, host := range t.Hosts {
		errs = append(errs, checkHost(host, path.Child("hosts").Index(i))...)
	}
	if t.SecretName != "" {
		errs = append(errs, check.Subdomain(t.SecretName, path.Child("secretName"))...)
	}
	return errs
}

func checkIngressStatus(i, old *networkingv1.Ingress) field.ErrorList {
	var known []string
	for _, in := range old.Status.LoadBalancer.Ingress {
		known = append(known, in.IP)
	}
	var errs field.ErrorList
	for n, in := range i.Status.LoadBalancer.Ingress {
		at := field.NewPath("status", "loadBalancer", "ingress").Index(n)
		if in.IP != "" {
			errs = append(errs, check.IP(in.IP, at.Child("ip"), known)...)
		}
		if in.Hostname == "" {
			continue
		}
		errs = append(errs, check.Subdomain(in.Hostname, at.Child("hostname"))...)
		if netutils.ParseIPSloppy(in.Hostname) != nil {
			errs = append(errs, field.Invalid(at.Child("hostname"), in.Hostname, "must be a DNS name, not an IP address"))
		}
	}
	return errs
}

func ingressWarnings(i, old *networkingv1.Ingress) []string {
	if _, annotated := i.Annotations[classAnnotation]; annotated && old == nil && i.Spec.IngressClassName == nil {
		return []string{fmt.Sprintf("annotation %q is deprecated, please use 'spec.ingressClassName' instead", classAnnotation)}
	}
	return nil
}
