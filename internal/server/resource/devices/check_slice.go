package devices

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/server/resource/check"
	"github.com/millrace/millrace/internal/server/resource/podspec"
	"github.com/millrace/millrace/internal/server/resource/quote"
)

func checkSlice(s, old *v1.ResourceSliceSpec) field.ErrorList {
	path := field.NewPath("spec")
	errs := check.DriverName(s.Driver, path.Child("driver"))
	errs = append(errs, checkSlicePool(&s.Pool, path.Child("pool"))...)
	if old != nil {
		errs = append(errs, check.Immutable(s.Pool.Name, old.Pool.Name, path.Child("pool", "name"))...)
		errs = append(errs, check.Immutable(s.Driver, old.Driver, path.Child("driver"))...)
		errs = append(errs, check.Immutable(s.NodeName, old.NodeName, path.Child("nodeName"))...)
	}
	errs = append(errs, checkPlace(s, path)...)
	if s.SharedCounters != nil && s.Devices != nil {
		errs = append(errs, field.Invalid(path, "", "only one of `sharedCounters` or `devices` is allowed"))
	}
	return append(errs, checkDevices(s, old, path.Child("devices"))...)
}

func checkSlicePool(p *v1.ResourcePool, path *field.Path) field.ErrorList {
	errs := checkPool(p.Name, path.Child("name"))
	if n := p.ResourceSliceCount; n <= 0 {
		errs = append(errs, field.Invalid(path.Child("resourceSliceCount"), n, "must be greater than zero"))
	}
	if n := p.Generation; n < 0 {
		errs = append(errs, field.Invalid(path.Child("generation"), n, "must be greater than or equal to zero"))
	}
	return errs
}

// place says on which nodes devices are; exactly one of its fields must be set.
type place struct {
	path *field.Path
	errs field.ErrorList
	set  []string
}

func (p *place) node(name *string, empty string) {
	switch at := p.path.Child("nodeName"); {
	case name == nil:
	case *name == "":
		p.errs = append(p.errs, field.Invalid(at, "", empty))
	default:
		p.set = append(p.set, "`nodeName`")
		p.errs = append(p.errs, check.Invalid(at, *name, validation.NameIsDNSSubdomain(*name, false))...)
	}
}

func (p *place) selector(s *corev1.NodeSelector) {
	if s != nil {
		p.set = append(p.set, "`nodeSelector`")
		p.errs = append(p.errs, podspec.ValidateNodeSelector(s, p.path.Child("nodeSelector"))...)
	}
}

func (p *place) flag(name string, said *bool) {
	switch {
	case said == nil:
	case *said:
		p.set = append(p.set, "`"+name+"`")
	default:
		p.errs = append(p.errs, field.Invalid(p.path.Child(name), false, "must be either unset or set to true"))
	}
}

// one requires that exactly one field is set.
func (p *place) one(problem, several string) field.ErrorList {
	switch len(p.set) {
	case 1:
		return p.errs
	case 0:
		return append(p.errs, field.Required(p.path, problem))
	}
	return append(p.errs, field.Invalid(p.path, fmt.Sprintf("{%s}", strings.Join(p.set, ", ")), problem+several))
}

func checkPlace(s *v1.ResourceSliceSpec, path *field.Path) field.ErrorList {
	p := &place{path: path}
	p.node(s.NodeName, "must be either unset or set to a non-empty string")
	p.selector(s.NodeSelector)
	if n := s.NodeSelector; n != nil && len(n.NodeSelectorTerms) != 1 {
		p.errs = append(p.errs, field.Invalid(path.Child("nodeSelector", "nodeSelectorTerms"), quote.Of(n.NodeSelectorTerms), "must have exactly one node selector term"))
	}
	p.flag("allNodes", s.AllNodes)
	p.flag("perDeviceNodeSelection", s.PerDeviceNodeSelection)
	return p.one("exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required", ", but multiple fields are set")
}

func checkDevicePlace(d *v1.Device, each bool, path *field.Path) field.ErrorList {
	if !each {
		if d.NodeName != nil || d.NodeSelector != nil || d.AllNodes != nil {
			return field.ErrorList{field.Invalid(path, nil, "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec")}
		}
		return nil
	}
	p := &place{path: path}
	p.node(d.NodeName, "must not be empty")
	p.selector(d.NodeSelector)
	p.flag("allNodes", d.AllNodes)
	return p.one("exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec", "")
}

// most returns how many devices a slice may have: fewer if they are expensive to examine.
func most(s *v1.ResourceSliceSpec) int {
	if slices.ContainsFunc(s.Devices, func(d v1.Device) bool { return len(d.Taints)+len(d.ConsumesCounters) > 0 }) {
		return v1.ResourceSliceMaxDevicesWithAdvancedFeatures
	}
	return v1.ResourceSliceMaxDevices
}

func checkDevices(s, old *v1.ResourceSliceSpec, path *field.Path) field.ErrorList {
	if n, most := len(s.Devices), most(s); n > most {
		return field.ErrorList{field.TooMany(path, n, most)}
	}
	var errs field.ErrorList
	before := map[string]*v1.Device{}
	if old != nil {
		for i := range old.Devices {
			before[old.Devices[i].Name] = &old.Devices[i]
		}
	}
	each := s.PerDeviceNodeSelection != nil && *s.PerDeviceNodeSelection
	for i := range s.Devices {
		d := &s.Devices[i]
		errs = append(errs, checkDevice(d, before[d.Name], each, path.Index(i))...)
	}
	seen := map[string]bool{}
	for i, d := range s.Devices {
		if seen[d.Name] {
			errs = append(errs, field.Duplicate(path.Index(i), d.Name))
		}
		seen[d.Name] = true
	}
	return errs
}

func checkDevice(d, old *v1.Device, each bool, path *field.Path) field.ErrorList {
	errs := check.Label(d.Name, path.Child("name"))
	if n := len(d.Attributes) + len(d.Capacity); n > v1.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
		errs = append(errs, field.Invalid(path, n, fmt.Sprintf("the total number of attributes and capacities must not exceed %d", v1.ResourceSliceMaxAttributesAndCapacitiesPerDevice)))
	}
	for _, name := range slices.Sorted(maps.Keys(d.Attributes)) {
		errs = append(errs, checkQualified(string(name), path.Child("attributes"))...)
		a := d.Attributes[name]
		errs = append(errs, checkAttribute(&a, path.Child("attributes").Key(shortened(string(name))))...)
	}
	if old == nil || !equality.Semantic.DeepEqual(old.Capacity, d.Capacity) {
		for _, name := range slices.Sorted(maps.Keys(d.Capacity)) {
			errs = append(errs, checkQualified(string(name), path.Child("capacity"))...)
			c := d.Capacity[name]
			shared := d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations
			errs = append(errs, checkCapacity(&c, shared, path.Child("capacity").Key(shortened(string(name))))...)
		}
	}
	if old == nil || !equality.Semantic.DeepEqual(old.Taints, d.Taints) {
		errs = append(errs, checkTaints(d.Taints, path.Child("taints"))...)
	}
	errs = append(errs, checkDevicePlace(d, each, path)...)
	return append(errs, checkBinding(d.BindingConditions, d.BindingFailureConditions, path)...)
}

func checkTaints(all []v1.DeviceTaint, path *field.Path) field.ErrorList {
	if n := len(all); n > v1.DeviceTaintsMaxLength {
		return field.ErrorList{field.TooMany(path, n, v1.DeviceTaintsMaxLength)}
	}
	var errs field.ErrorList
	for i := range all {
		errs = append(errs, checkTaint(&all[i], path.Index(i))...)
	}
	return errs
}
