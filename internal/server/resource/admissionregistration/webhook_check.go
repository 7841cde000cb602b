package admissionregistration

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource/check"
)

// leniency says which invalid values an update may keep, because the stored object has them.
type leniency struct {
	sideEffects, versions, names bool
	selectors                    metav1validation.LabelSelectorValidationOptions
}

func lenientAbout(old []hook) leniency {
	var l leniency
	names := map[string]bool{}
	for _, h := range old {
		l.sideEffects = l.sideEffects || h.sideEffects == nil || !slices.Contains(harmless, *h.sideEffects)
		l.versions = l.versions || !slices.ContainsFunc(h.versions, understood)
		l.names = l.names || names[*h.name]
		names[*h.name] = true
		for _, s := range []*metav1.LabelSelector{*h.namespaces, *h.objects} {
			if s != nil && metav1validation.LabelSelectorHasInvalidLabelValue(s) {
				l.selectors.AllowInvalidLabelValueInSelector = true
			}
		}
	}
	return l
}

var (
	harmless       = []admissionv1.SideEffectClass{admissionv1.SideEffectClassNone, admissionv1.SideEffectClassNoneOnDryRun}
	allSideEffects = []admissionv1.SideEffectClass{admissionv1.SideEffectClassNone, admissionv1.SideEffectClassNoneOnDryRun,
		admissionv1.SideEffectClassSome, admissionv1.SideEffectClassUnknown}
	reviewVersions = []string{"v1", "v1beta1"}
)

func understood(version string) bool { return slices.Contains(reviewVersions, version) }

func checkHooks(now, old []hook) field.ErrorList {
	var errs field.ErrorList
	allow := lenientAbout(old)
	names := map[string]bool{}
	for i, h := range now {
		path := field.NewPath("webhooks").Index(i)
		errs = append(errs, checkHook(h, allow, path)...)
		errs = append(errs, checkVersions(h.versions, allow.versions, path.Child("admissionReviewVersions"))...)
		if *h.name != "" && names[*h.name] && !allow.names {
			errs = append(errs, field.Duplicate(path.Child("name"), *h.name))
		}
		names[*h.name] = true
	}
	return errs
}

func checkHook(h hook, allow leniency, path *field.Path) field.ErrorList {
	errs := validation.IsFullyQualifiedName(path.Child("name"), *h.name)
	for i := range h.rules {
		errs = append(errs, checkOperations(&h.rules[i], path.Child("rules").Index(i))...)
	}
	if p := *h.failure; p != nil {
		errs = append(errs, check.OneOf(*p, path.Child("failurePolicy"), admissionv1.Fail, admissionv1.Ignore)...)
	}
	if p := *h.match; p != nil {
		errs = append(errs, check.OneOf(*p, path.Child("matchPolicy"), admissionv1.Equivalent, admissionv1.Exact)...)
	}
	effects := harmless
	if allow.sideEffects {
		effects = allSideEffects
	}
	if s := h.sideEffects; s == nil {
		errs = append(errs, field.Required(path.Child("sideEffects"), "must specify one of "+join(effects)))
	} else {
		errs = append(errs, check.OneOf(*s, path.Child("sideEffects"), effects...)...)
	}
	if t := *h.timeout; t != nil && (*t < 1 || *t > 30) {
		errs = append(errs, field.Invalid(path.Child("timeoutSeconds"), *t, "the timeout value must be between 1 and 30 seconds"))
	}
	if s := *h.namespaces; s != nil {
		errs = append(errs, metav1validation.ValidateLabelSelector(s, allow.selectors, path.Child("namespaceSelector"))...)
	}
	if s := *h.objects; s != nil {
		errs = append(errs, metav1validation.ValidateLabelSelector(s, allow.selectors, path.Child("objectSelector"))...)
	}
	errs = append(errs, checkClient(h.client, path.Child("clientConfig"))...)
	if h.reinvocation != nil && *h.reinvocation != nil {
		errs = append(errs, check.OneOf(**h.reinvocation, path.Child("reinvocationPolicy"), admissionv1.IfNeededReinvocationPolicy, admissionv1.NeverReinvocationPolicy)...)
	}
	return append(errs, checkConditions(h.conditions, path.Child("matchConditions"))...)
}

func join[T ~string](all []T) string {
	var out []string
	for _, v := range all {
		out = append(out, string(v))
	}
	return strings.Join(out, ", ")
}

func checkVersions(versions []string, lenient bool, path *field.Path) field.ErrorList {
	if len(versions) == 0 {
		return field.ErrorList{field.Required(path, "must specify one of "+join(reviewVersions))}
	}
	var errs field.ErrorList
	for i, v := range versions {
		if slices.Contains(versions[:i], v) {
			errs = append(errs, field.Invalid(path.Index(i), v, "duplicate version"))
			continue
		}
		errs = append(errs, check.Invalid(path.Index(i), v, validation.IsDNS1035Label(v))...)
	}
	if !slices.ContainsFunc(versions, understood) && !lenient {
		errs = append(errs, field.Invalid(path, versions, "must include at least one of "+join(reviewVersions)))
	}
	return errs
}

func checkClient(c *admissionv1.WebhookClientConfig, path *field.Path) field.ErrorList {
	switch {
	case (c.URL == nil) == (c.Service == nil):
		return field.ErrorList{field.Required(path, "exactly one of url or service is required")}
	case c.URL != nil:
		return checkURL(*c.URL, path.Child("url"))
	}
	s, path := c.Service, path.Child("service")
	var errs field.ErrorList
	// Kubernetes confuses the two: it says of each that it misses the other.
	if s.Name == "" {
		errs = append(errs, field.Required(path.Child("namespace"), ""))
	}
	if s.Namespace == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	if s.Port != nil {
		if bad := validation.IsValidPortNum(int(*s.Port)); bad != nil {
			errs = append(errs, field.Invalid(path.Child("port"), *s.Port, "port is not valid: "+strings.Join(bad, ", ")))
		}
	}
	if s.Path != nil {
		errs = append(errs, checkPath(*s.Path, path.Child("path"))...)
	}
	return errs
}

func checkURL(text string, path *field.Path) field.ErrorList {
	const form = "; desired format: https://host[/path]"
	u, err := url.Parse(text)
	if err != nil {
		return field.ErrorList{field.Required(path, "url must be a valid URL: "+err.Error()+form)}
	}
	var errs field.ErrorList
	bad := func(is bool, value, why string) {
		if is {
			errs = append(errs, field.Invalid(path, value, why))
		}
	}
	bad(u.Scheme != "https", u.Scheme, "'https' is the only allowed URL scheme"+form)
	bad(u.Host == "", u.Host, "host must be specified"+form)
	bad(u.User != nil, u.User.String(), "user information is not permitted in the URL")
	bad(u.Fragment != "", u.Fragment, "fragments are not permitted in the URL")
	bad(u.RawQuery != "", u.RawQuery, "query parameters are not permitted in the URL")
	return errs
}

func checkPath(p string, path *field.Path) field.ErrorList {
	switch p {
	case "", "/":
		return nil
	case "//":
		return field.ErrorList{field.Invalid(path, p, "segment[0] may not be empty")}
	}
	var errs field.ErrorList
	if !strings.HasPrefix(p, "/") {
		errs = append(errs, field.Invalid(path, p, "must start with a '/'"))
	}
	i := 0
	for segment := range strings.SplitSeq(strings.TrimSuffix(p[1:], "/"), "/") {
		if segment == "" {
			errs = append(errs, field.Invalid(path, p, fmt.Sprintf("segment[%d] may not be empty", i)))
		} else {
			for _, msg := range validation.IsDNS1123Subdomain(segment) {
				errs = append(errs, field.Invalid(path, p, fmt.Sprintf("segment[%d]: %v", i, msg)))
			}
		}
		i++
	}
	return errs
}

// maxConditions is the maximum number of match conditions of one webhook or policy.
const maxConditions = 64

func checkConditions(all []admissionv1.MatchCondition, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(all) > maxConditions {
		errs = append(errs, field.TooMany(path, len(all), maxConditions))
	}
	names := map[string]bool{}
	for i, c := range all {
		at := path.Index(i)
		if strings.TrimSpace(c.Expression) == "" {
			errs = append(errs, field.Required(at.Child("expression"), ""))
		}
		if c.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
			continue
		}
		errs = append(errs, check.Qualified(c.Name, at.Child("name"))...)
		if names[c.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
		}
		names[c.Name] = true
	}
	return errs
}
