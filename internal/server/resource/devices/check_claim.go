package devices

import (
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource/check"
)

// requests are the names of a claim's requests, and of the alternatives of each.
type requests map[string]map[string]bool

func requestsOf(c *v1.DeviceClaim) requests {
	all := requests{}
	for _, r := range c.Requests {
		all[r.Name] = map[string]bool{}
		for _, f := range r.FirstAvailable {
			all[r.Name][f.Name] = true
		}
	}
	return all
}

// has reports whether a claim has a request, or an alternative, which is named after a slash.
func (r requests) has(name string) bool {
	request, alternative, nested := strings.Cut(name, "/")
	within, known := r[request]
	return known && (!nested || within[alternative])
}

// checkReference requires the name of a request.
func (r requests) checkReference(name string, path *field.Path) field.ErrorList {
	const problem = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
	parts := strings.Split(name, "/")
	if len(parts) > 2 {
		return field.ErrorList{field.Invalid(path, name, problem)}
	}
	var errs field.ErrorList
	for _, p := range parts {
		errs = append(errs, check.Label(p, path)...)
	}
	if !r.has(name) {
		errs = append(errs, field.Invalid(path, name, problem))
	}
	return errs
}

// checkReferences requires names of requests; the declarative validation refuses duplicates.
func (r requests) checkReferences(names []string, path *field.Path) field.ErrorList {
	if len(names) > v1.DeviceRequestsMaxSize {
		return nil // declarative validation reports it
	}
	var errs field.ErrorList
	for i, name := range names {
		errs = append(errs, r.checkReference(name, path.Index(i))...)
	}
	return errs
}

func checkClaim(c *v1.DeviceClaim, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	known := requestsOf(c)
	if len(c.Requests) <= v1.DeviceRequestsMaxSize {
		for i := range c.Requests {
			errs = append(errs, checkRequest(&c.Requests[i], path.Child("requests").Index(i))...)
		}
	}
	if len(c.Constraints) <= v1.DeviceConstraintsMaxSize {
		for i, one := range c.Constraints {
			at := path.Child("constraints").Index(i)
			errs = append(errs, known.checkReferences(one.Requests, at.Child("requests"))...)
			if one.MatchAttribute == nil && one.DistinctAttribute == nil {
				errs = append(errs, field.Required(at, `exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set`))
			}
		}
	}
	if len(c.Config) <= v1.DeviceConfigMaxSize {
		for i := range c.Config {
			at := path.Child("config").Index(i)
			errs = append(errs, known.checkReferences(c.Config[i].Requests, at.Child("requests"))...)
			errs = append(errs, checkConfiguration(&c.Config[i].DeviceConfiguration, at, false)...)
		}
	}
	return errs
}

func checkRequest(r *v1.DeviceRequest, path *field.Path) field.ErrorList {
	errs := check.Label(r.Name, path.Child("name"))
	switch alternatives := len(r.FirstAvailable) > 0; {
	case alternatives && r.Exactly != nil:
		errs = append(errs, field.Invalid(path, nil, "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"))
	case r.Exactly != nil:
		errs = append(errs, checkExactly(r.Exactly, path.Child("exactly"))...)
	case !alternatives:
		errs = append(errs, field.Required(path, "exactly one of `exactly` or `firstAvailable` is required"))
	case len(r.FirstAvailable) <= v1.FirstAvailableDeviceRequestMaxSize:
		for i := range r.FirstAvailable {
			errs = append(errs, checkAlternative(&r.FirstAvailable[i], path.Child("firstAvailable").Index(i))...)
		}
	}
	return errs
}

func checkExactly(r *v1.ExactDeviceRequest, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if at := path.Child("deviceClassName"); r.DeviceClassName == "" {
		errs = append(errs, field.Required(at, ""))
	} else {
		errs = append(errs, check.Subdomain(r.DeviceClassName, at)...)
	}
	errs = append(errs, checkSelectors(r.Selectors, path.Child("selectors"), false)...)
	errs = append(errs, checkCount(r.AllocationMode, r.Count, path)...)
	return append(errs, checkTolerations(r.Tolerations, path.Child("tolerations"))...)
}

func checkAlternative(r *v1.DeviceSubRequest, path *field.Path) field.ErrorList {
	errs := check.Label(r.Name, path.Child("name"))
	errs = append(errs, checkSelectors(r.Selectors, path.Child("selectors"), false)...)
	errs = append(errs, checkCount(r.AllocationMode, r.Count, path)...)
	return append(errs, checkTolerations(r.Tolerations, path.Child("tolerations"))...)
}

func checkCount(mode v1.DeviceAllocationMode, n int64, path *field.Path) field.ErrorList {
	switch {
	case mode == v1.DeviceAllocationModeAll && n != 0:
		return field.ErrorList{field.Invalid(path.Child("count"), n, fmt.Sprintf("must not be specified when allocationMode is '%s'", mode))}
	case mode == v1.DeviceAllocationModeExactCount && n <= 0:
		return field.ErrorList{field.Invalid(path.Child("count"), n, "must be greater than zero")}
	}
	return nil
}

func checkTolerations(all []v1.DeviceToleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, t := range all {
		at := path.Index(i).Child("value")
		switch t.Operator {
		case v1.DeviceTolerationOpExists:
			if t.Value != "" {
				errs = append(errs, field.Invalid(at, t.Value, "must be empty for operator `Exists`"))
			}
		case v1.DeviceTolerationOpEqual:
			errs = append(errs, checkLabelValue(t.Value, at)...)
		}
	}
	return errs
}

func checkTemplate(t *v1.ResourceClaimTemplate) field.ErrorList {
	path := field.NewPath("spec")
	errs := checkTemplateMeta(&t.Spec.ObjectMeta, path.Child("metadata"))
	return append(errs, checkClaim(&t.Spec.Spec.Devices, path.Child("spec", "devices"))...)
}

func checkTemplateUpdate(_ context.Context, t, old *v1.ResourceClaimTemplate) field.ErrorList {
	return check.Immutable(t.Spec, old.Spec, field.NewPath("spec"))
}
