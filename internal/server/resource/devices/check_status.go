package devices

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource/check"
	"github.com/millrace/millrace/internal/server/resource/podspec"
)

func checkClaimStatus(c, old *v1.ResourceClaim) field.ErrorList {
	path := field.NewPath("status")
	errs := checkConsumers(c, old, path.Child("reservedFor"))
	given := allocated(&c.Status)
	for i := range c.Status.Devices {
		errs = append(errs, checkDeviceStatus(&c.Status.Devices[i], given, path.Child("devices").Index(i))...)
	}
	errs = append(errs, checkReserved(c, old, path.Child("reservedFor"))...)
	if c.Status.Allocation != nil && old.Status.Allocation == nil {
		errs = append(errs, checkAllocation(c.Status.Allocation, requestsOf(&c.Spec.Devices), path.Child("allocation"))...)
	}
	return errs
}

func checkConsumers(c, _ *v1.ResourceClaim, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(c.Status.ReservedFor) > v1.ResourceClaimReservedForMaxSize {
		return nil // declarative validation reports it
	}
	for i, r := range c.Status.ReservedFor {
		for _, part := range []struct{ name, value string }{{"resource", r.Resource}, {"name", r.Name}, {"uid", string(r.UID)}} {
			if part.value == "" {
				errs = append(errs, field.Required(path.Index(i).Child(part.name), ""))
			}
		}
	}
	return errs
}

// checkReserved requires that a reserved claim is allocated, and refuses new reservations while it is being deleted.
func checkReserved(c, old *v1.ResourceClaim, path *field.Path) field.ErrorList {
	if len(c.Status.ReservedFor) == 0 {
		return nil
	}
	if c.Status.Allocation == nil {
		return field.ErrorList{field.Forbidden(path, "may not be specified when `allocated` is not set")}
	}
	added := func(r v1.ResourceClaimConsumerReference) bool { return !slices.Contains(old.Status.ReservedFor, r) }
	if c.DeletionTimestamp != nil && slices.ContainsFunc(c.Status.ReservedFor, added) {
		return field.ErrorList{field.Forbidden(path, "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set")}
	}
	return nil
}

func checkDeviceStatus(s *v1.AllocatedDeviceStatus, given map[deviceID]bool, path *field.Path) field.ErrorList {
	errs := check.DriverName(s.Driver, path.Child("driver"))
	errs = append(errs, checkPool(s.Pool, path.Child("pool"))...)
	errs = append(errs, check.Label(s.Device, path.Child("device"))...)
	if id := idOf(s); !given[id] {
		errs = append(errs, field.Invalid(path, id, "must be an allocated device in the claim"))
	}
	if n := len(s.Conditions); n > v1.AllocatedDeviceStatusMaxConditions {
		errs = append(errs, field.TooMany(path.Child("conditions"), n, v1.AllocatedDeviceStatusMaxConditions))
	}
	errs = append(errs, metav1validation.ValidateConditions(s.Conditions, path.Child("conditions"))...)
	if s.Data != nil && len(s.Data.Raw) > 0 {
		errs = append(errs, checkJSON(s.Data, path.Child("data"), false, v1.AllocatedDeviceStatusDataMaxLength)...)
	}
	if n := s.NetworkData; n != nil {
		for i, address := range n.IPs {
			errs = append(errs, validation.IsValidInterfaceAddress(path.Child("networkData", "ips").Index(i), address)...)
		}
	}
	return errs
}

func checkAllocation(a *v1.AllocationResult, known requests, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	at := path.Child("devices")
	if len(a.Devices.Results) <= v1.AllocationResultsMaxSize {
		for i := range a.Devices.Results {
			errs = append(errs, checkResult(&a.Devices.Results[i], known, at.Child("results").Index(i))...)
		}
	}
	if len(a.Devices.Config) <= 2*v1.DeviceConfigMaxSize {
		for i := range a.Devices.Config {
			c, at := &a.Devices.Config[i], at.Child("config").Index(i)
			errs = append(errs, known.checkReferences(c.Requests, at.Child("requests"))...)
			errs = append(errs, checkConfiguration(&c.DeviceConfiguration, at, false)...)
		}
	}
	if a.NodeSelector != nil {
		errs = append(errs, podspec.ValidateNodeSelector(a.NodeSelector, path.Child("nodeSelector"))...)
	}
	return errs
}

func checkResult(r *v1.DeviceRequestAllocationResult, known requests, path *field.Path) field.ErrorList {
	errs := known.checkReference(r.Request, path.Child("request"))
	errs = append(errs, check.Label(r.Device, path.Child("device"))...)
	errs = append(errs, checkBinding(r.BindingConditions, r.BindingFailureConditions, path)...)
	return append(errs, checkTolerations(r.Tolerations, path.Child("tolerations"))...)
}

// checkBinding requires binding conditions and binding failure conditions, or neither, and refuses conditions that are
// in both.
func checkBinding(good, bad []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, of := range []struct {
		name  string
		names []string
		most  int
	}{{"bindingConditions", good, v1.BindingConditionsMaxSize}, {"bindingFailureConditions", bad, v1.BindingFailureConditionsMaxSize}} {
		if len(of.names) > of.most {
			continue // declarative validation reports it
		}
		for i, c := range of.names {
			errs = append(errs, metav1validation.ValidateLabelName(c, path.Child(of.name).Index(i))...)
		}
	}
	for i, c := range good {
		if slices.Contains(good[:i], c) {
			errs = append(errs, field.Duplicate(path.Child("bindingConditions").Index(i), c))
		}
	}
	for i, c := range bad {
		at := path.Child("bindingFailureConditions").Index(i)
		if slices.Contains(bad[:i], c) {
			errs = append(errs, field.Duplicate(at, c))
		}
		if slices.Contains(good, c) {
			errs = append(errs, field.Invalid(at, c, "bindingFailureConditions must not overlap with bindingConditions"))
		}
	}
	needs := func(name, other string, value []string) {
		errs = append(errs, field.Invalid(path.Child(name), value, fmt.Sprintf("%s are required to use %s", name, other)))
	}
	switch {
	case len(good) == 0 && len(bad) > 0:
		needs("bindingConditions", "bindingFailureConditions", good)
	case len(bad) == 0 && len(good) > 0:
		needs("bindingFailureConditions", "bindingConditions", bad)
	}
	return errs
}

func checkClass(c, old *v1.DeviceClass) field.ErrorList {
	path := field.NewPath("spec")
	same := func(part func(*v1.DeviceClass) any) bool {
		return old != nil && equality.Semantic.DeepEqual(part(c), part(old))
	}
	errs := checkSelectors(c.Spec.Selectors, path.Child("selectors"), same(func(c *v1.DeviceClass) any { return c.Spec.Selectors }))
	if len(c.Spec.Config) > v1.DeviceConfigMaxSize {
		return errs
	}
	stored := same(func(c *v1.DeviceClass) any { return c.Spec.Config })
	for i := range c.Spec.Config {
		errs = append(errs, checkConfiguration(&c.Spec.Config[i].DeviceConfiguration, path.Child("config").Index(i), stored)...)
	}
	return errs
}

func checkRule(r *v1.DeviceTaintRule) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec")
	if s, at := r.Spec.DeviceSelector, path.Child("deviceSelector"); s != nil {
		if s.Driver != nil {
			errs = append(errs, check.DriverName(*s.Driver, at.Child("driver"))...)
		}
		if s.Pool != nil {
			errs = append(errs, checkPool(*s.Pool, at.Child("pool"))...)
		}
		if s.Device != nil {
			errs = append(errs, check.Label(*s.Device, at.Child("device"))...)
		}
	}
	return append(errs, checkTaint(&r.Spec.Taint, path.Child("taint"))...)
}

func checkTaint(t *v1.DeviceTaint, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabelName(t.Key, path.Child("key"))
	if t.Value != "" {
		errs = append(errs, checkLabelValue(t.Value, path.Child("value"))...)
	}
	return errs
}

func checkRuleStatus(r *v1.DeviceTaintRule) field.ErrorList {
	at := field.NewPath("status", "conditions")
	errs := metav1validation.ValidateConditions(r.Status.Conditions, at)
	if n := len(r.Status.Conditions); n > v1.DeviceTaintRuleStatusMaxConditions {
		errs = append(errs, field.TooMany(at, n, v1.DeviceTaintRuleStatusMaxConditions))
	}
	return errs
}
