package devices

import (
	"fmt"
	"regexp"
	"strings"

	v1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource/check"
)

// maxValues is the maximum number of values of a request policy.
const maxValues = 10

// version is a semantic version (semver.org).
var version = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?$`)

// checkAttribute validates the value; the declarative validation requires exactly one.
func checkAttribute(a *v1.DeviceAttribute, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if a.StringValue != nil && len(*a.StringValue) > v1.DeviceAttributeMaxValueLength {
		errs = append(errs, field.TooLong(path.Child("string"), "", v1.DeviceAttributeMaxValueLength))
	}
	if v := a.VersionValue; v != nil {
		if !version.MatchString(*v) {
			errs = append(errs, field.Invalid(path.Child("version"), *v, "must be a string compatible with semver.org spec 2.0.0"))
		}
		if len(*v) > v1.DeviceAttributeMaxValueLength {
			errs = append(errs, field.TooLong(path.Child("version"), "", v1.DeviceAttributeMaxValueLength))
		}
	}
	return errs
}

// checkQualified requires an identifier with an optional domain.
func checkQualified(name string, path *field.Path) field.ErrorList {
	domain, id, qualified := strings.Cut(name, "/")
	switch {
	case !qualified:
		return checkIdentifier(name, path)
	case strings.Contains(id, "/"):
		return nil // Kubernetes does not validate such names
	}
	var errs field.ErrorList
	if domain == "" {
		errs = append(errs, field.Invalid(path, "", "the domain must not be empty"))
	} else {
		errs = append(errs, check.DriverName(domain, path)...)
	}
	if id == "" {
		return append(errs, field.Invalid(path, "", "the name must not be empty"))
	}
	return append(errs, checkIdentifier(id, path)...)
}

func checkIdentifier(id string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(id) > v1.DeviceMaxIDLength {
		errs = append(errs, field.TooLong(path, "", v1.DeviceMaxIDLength))
	}
	return append(errs, check.Invalid(path, id, content.IsCIdentifier(id))...)
}

// shortened returns a key as errors show it.
func shortened(key string) string {
	const most, dots = v1.DeviceMaxDomainLength + 1 + v1.DeviceMaxIDLength, "..."
	if len(key) <= most {
		return key
	}
	keep := most - len(dots)
	return key[:(keep+1)/2] + dots + key[len(key)-keep/2:]
}

func checkCapacity(c *v1.DeviceCapacity, shared bool, path *field.Path) field.ErrorList {
	p, at := c.RequestPolicy, path.Child("requestPolicy")
	switch {
	case p == nil:
		return nil
	case !shared:
		return field.ErrorList{field.Forbidden(at, "allowMultipleAllocations must be true")}
	case len(p.ValidValues) > 0 && p.ValidRange != nil:
		return field.ErrorList{field.Forbidden(at, `exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time`)}
	case len(p.ValidValues) > 0 && p.Default == nil:
		return field.ErrorList{field.Required(at.Child("default"), "required when validValues is defined")}
	case len(p.ValidValues) > 0:
		return checkValues(p, c.Value, at.Child("validValues"))
	case p.ValidRange != nil && p.Default == nil:
		return field.ErrorList{field.Required(at.Child("default"), "required when validRange is defined")}
	case p.ValidRange != nil:
		return checkRange(p.ValidRange, *p.Default, c.Value, at.Child("validRange"))
	}
	return nil
}

func checkValues(p *v1.CapacityRequestPolicy, capacity resource.Quantity, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	values := p.ValidValues
	for i := range len(values) - 1 {
		if values[i].Cmp(values[i+1]) > 0 {
			errs = append(errs, field.Invalid(path.Index(i+1), values[i+1].String(), "values must be sorted in ascending order"))
		}
	}
	if n := len(values); n > maxValues {
		return append(errs, field.TooMany(path, n, maxValues))
	}
	found := false
	for i, v := range values {
		if v.Cmp(capacity) > 0 {
			errs = append(errs, field.Invalid(path.Index(i), v.String(), fmt.Sprintf("option is larger than capacity value: %s", capacity.String())))
		}
		found = found || v.Cmp(*p.Default) == 0
	}
	seen := map[string]bool{}
	for i, v := range values {
		key := v.AsDec().String()
		if seen[key] {
			errs = append(errs, field.Duplicate(path.Index(i), key))
		}
		seen[key] = true
	}
	if !found {
		errs = append(errs, field.Invalid(path, p.Default.String(), "default value is not valid according to the requestPolicy"))
	}
	return errs
}

// checkRange requires that the bounds fit each other, the capacity and the default.
func checkRange(r *v1.CapacityRequestPolicyRange, standard, capacity resource.Quantity, path *field.Path) field.ErrorList {
	if r.Min == nil {
		return field.ErrorList{field.Required(path.Child("min"), "required when validRange is defined")}
	}
	var errs field.ErrorList
	wrong := func(at string, q *resource.Quantity, problem string, than *resource.Quantity) {
		errs = append(errs, field.Invalid(path.Child(at), q.String(), problem+": "+than.String()))
	}
	if r.Min.Cmp(capacity) > 0 {
		wrong("min", r.Min, "min is larger than capacity value", &capacity)
	}
	if standard.Cmp(*r.Min) < 0 {
		wrong("default", &standard, "default is less than min", r.Min)
	}
	if r.Max != nil {
		if r.Min.Cmp(*r.Max) > 0 {
			wrong("max", r.Min, "min is larger than max", r.Max)
		}
		if r.Max.Cmp(capacity) > 0 {
			wrong("max", r.Max, "max is larger than capacity value", &capacity)
		}
		if standard.Cmp(*r.Max) > 0 {
			wrong("default", &standard, "default is more than max", r.Max)
		}
	}
	return append(errs, checkSteps(r, standard, capacity, path)...)
}
