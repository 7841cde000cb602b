package storage

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource/check"
)

const (
	maxParameters    = 512
	maxParameterSize = 256 * 1024
)

func checkClass(c *storagev1.StorageClass) field.ErrorList {
	errs := checkProvisioner(c.Provisioner, field.NewPath("provisioner"))
	errs = append(errs, checkParameters(c.Parameters, field.NewPath("parameters"))...)
	if p := c.ReclaimPolicy; p != nil && *p != "" {
		errs = append(errs, check.OneOf(*p, field.NewPath("reclaimPolicy"), corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain)...)
	}
	if m := c.VolumeBindingMode; m != nil {
		errs = append(errs, check.OneOf(*m, field.NewPath("volumeBindingMode"), storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer)...)
	}
	return append(errs, checkTopologies(c.AllowedTopologies, field.NewPath("allowedTopologies"))...)
}

func checkClassUpdate(c, old *storagev1.StorageClass) field.ErrorList {
	errs := check.Immutable(c.Parameters, old.Parameters, field.NewPath("parameters"))
	errs = append(errs, check.Immutable(c.Provisioner, old.Provisioner, field.NewPath("provisioner"))...)
	errs = append(errs, check.Immutable(c.ReclaimPolicy, old.ReclaimPolicy, field.NewPath("reclaimPolicy"))...)
	return append(errs, check.Immutable(c.VolumeBindingMode, old.VolumeBindingMode, field.NewPath("volumeBindingMode"))...)
}

func checkProvisioner(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return check.Qualified(strings.ToLower(name), path)
}

func checkParameters(parameters map[string]string, path *field.Path) field.ErrorList {
	if len(parameters) > maxParameters {
		return field.ErrorList{field.TooLong(path, "Provisioner Parameters exceeded max allowed", maxParameters)}
	}
	var errs field.ErrorList
	size := 0
	for key, value := range parameters {
		if key == "" {
			errs = append(errs, field.Invalid(path, key, "field can not be empty."))
		}
		size += len(key) + len(value)
	}
	if size > maxParameterSize {
		errs = append(errs, field.TooLong(path, "", maxParameterSize))
	}
	return errs
}

func checkTopologies(terms []corev1.TopologySelectorTerm, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range terms {
		at := path.Index(i).Child("matchLabelExpressions")
		errs = append(errs, checkTopology(terms[i].MatchLabelExpressions, at)...)
		same := func(t corev1.TopologySelectorTerm) bool { return equality.Semantic.DeepEqual(terms[i], t) }
		if len(terms[i].MatchLabelExpressions) == 0 || slices.ContainsFunc(terms[:i], same) {
			errs = append(errs, field.Duplicate(at, ""))
		}
	}
	return errs
}

func checkTopology(all []corev1.TopologySelectorLabelRequirement, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	keys := map[string]bool{}
	for i, r := range all {
		at := path.Index(i)
		values := map[string]bool{}
		if len(r.Values) == 0 {
			errs = append(errs, field.Required(at.Child("values"), ""))
		}
		for j, v := range r.Values {
			if values[v] {
				errs = append(errs, field.Duplicate(at.Child("values").Index(j), v))
			}
			values[v] = true
		}
		errs = append(errs, metav1validation.ValidateLabelName(r.Key, at.Child("key"))...)
		if keys[r.Key] {
			errs = append(errs, field.Duplicate(at.Child("key"), r.Key))
		}
		keys[r.Key] = true
	}
	return errs
}

func classWarnings(c *storagev1.StorageClass) []string {
	var out []string
	for i, term := range c.AllowedTopologies {
		for j, r := range term.MatchLabelExpressions {
			if text, old := oldLabels[r.Key]; old {
				out = append(out, field.NewPath("allowedTopologies").Index(i).Child("matchLabelExpressions").Index(j).Child("key").String()+": "+text)
			}
		}
	}
	return out
}

var oldLabels = map[string]string{
	corev1.LabelFailureDomainBetaZone:   `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
	corev1.LabelFailureDomainBetaRegion: `deprecated since v1.17; use "topology.kubernetes.io/region" instead`,
}

func checkAttributes(c *storagev1.VolumeAttributesClass) field.ErrorList {
	errs := checkProvisioner(c.DriverName, field.NewPath("driverName"))
	if len(c.Parameters) == 0 {
		return append(errs, field.Required(field.NewPath("parameters"), "must contain at least one key/value pair"))
	}
	return append(errs, checkParameters(c.Parameters, field.NewPath("parameters"))...)
}

func checkAttributesUpdate(c, old *storagev1.VolumeAttributesClass) field.ErrorList {
	var errs field.ErrorList
	if c.DriverName != old.DriverName {
		errs = append(errs, field.Forbidden(field.NewPath("driverName"), "updates to driverName are forbidden."))
	}
	if !maps.Equal(c.Parameters, old.Parameters) {
		errs = append(errs, field.Forbidden(field.NewPath("parameters"), "updates to parameters are forbidden."))
	}
	return errs
}

func checkCapacity(c *storagev1.CSIStorageCapacity) field.ErrorList {
	var errs field.ErrorList
	if c.NodeTopology != nil {
		errs = append(errs, metav1validation.ValidateLabelSelector(c.NodeTopology, metav1validation.LabelSelectorValidationOptions{}, field.NewPath("nodeTopology"))...)
	}
	errs = append(errs, check.Subdomain(c.StorageClassName, field.NewPath("storageClassName"))...)
	if c.Capacity != nil {
		errs = append(errs, check.NonNegativeQuantity(*c.Capacity, field.NewPath("capacity"))...)
	}
	return errs
}

func checkCapacityUpdate(c, old *storagev1.CSIStorageCapacity) field.ErrorList {
	errs := checkCapacity(c)
	errs = append(errs, check.Immutable(c.NodeTopology, old.NodeTopology, field.NewPath("nodeTopology"))...)
	return append(errs, check.Immutable(c.StorageClassName, old.StorageClassName, field.NewPath("storageClassName"))...)
}
