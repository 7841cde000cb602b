package core

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/resource/check"
	"github.com/millrace/millrace/resource/quote"
)

func checkClaim(c *corev1.PersistentVolumeClaim) field.ErrorList {
	return checkClaimSpec(&c.Spec, field.NewPath("spec"), metav1validation.LabelSelectorValidationOptions{})
}

func checkClaimSpec(s *corev1.PersistentVolumeClaimSpec, path *field.Path, selectors metav1validation.LabelSelectorValidationOptions) field.ErrorList {
	var errs field.ErrorList
	if len(s.AccessModes) == 0 {
		errs = append(errs, field.Required(path.Child("accessModes"), "at least 1 access mode is required"))
	}
	if s.Selector != nil {
		errs = append(errs, metav1validation.ValidateLabelSelector(s.Selector, selectors, path.Child("selector"))...)
	}
	errs = append(errs, checkModes(s.AccessModes, path.Child("accessModes"))...)
	if size, there := s.Resources.Requests[corev1.ResourceStorage]; !there {
		errs = append(errs, field.Required(path.Child("resources").Key("storage"), ""))
	} else {
		errs = append(errs, check.PositiveQuantity(size, path.Child("resources").Key("storage"))...)
	}
	if name := s.StorageClassName; name != nil && *name != "" {
		errs = append(errs, check.Subdomain(*name, path.Child("storageClassName"))...)
	}
	if s.VolumeMode != nil {
		errs = append(errs, checkVolumeMode(*s.VolumeMode, path.Child("volumeMode"))...)
	}
	if name := s.VolumeAttributesClassName; name != nil && *name != "" {
		errs = append(errs, check.Subdomain(*name, path.Child("volumeAttributesClassName"))...)
	}
	return append(errs, checkDataSources(s, path)...)
}

func checkVolumeMode(m corev1.PersistentVolumeMode, path *field.Path) field.ErrorList {
	return check.OneOf(m, path, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)
}

func checkModes(modes []corev1.PersistentVolumeAccessMode, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, m := range modes {
		errs = append(errs, check.OneOf(m, path, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod)...)
	}
	alone := slices.Contains(modes, corev1.ReadWriteOncePod)
	others := slices.ContainsFunc(modes, func(m corev1.PersistentVolumeAccessMode) bool {
		return m == corev1.ReadOnlyMany || m == corev1.ReadWriteMany || m == corev1.ReadWriteOnce
	})
	if alone && others {
		errs = append(errs, field.Forbidden(path, "may not use ReadWriteOncePod with other access modes"))
	}
	return errs
}

func checkDataSources(s *corev1.PersistentVolumeClaimSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if d := s.DataSource; d != nil {
		errs = append(errs, checkDataSource(d.APIGroup, d.Kind, d.Name, path.Child("dataSource"))...)
	}
	r := s.DataSourceRef
	if r == nil {
		return errs
	}
	errs = append(errs, checkDataSource(r.APIGroup, r.Kind, r.Name, path.Child("dataSourceRef"))...)
	switch d := s.DataSource; {
	case d == nil:
	case r.Namespace != nil && *r.Namespace != "":
		errs = append(errs, field.Invalid(path, path.Child("dataSource"), "may not be specified when dataSourceRef.namespace is specified"))
	case groupOf(d.APIGroup) != groupOf(r.APIGroup) || d.Kind != r.Kind || d.Name != r.Name:
		errs = append(errs, field.Invalid(path, path.Child("dataSource"), "must match dataSourceRef"))
	}
	return errs
}

func groupOf(g *string) string {
	if g == nil {
		return ""
	}
	return *g
}

func checkDataSource(group *string, kind, name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	if kind == "" {
		errs = append(errs, field.Required(path.Child("kind"), ""))
	}
	g := groupOf(group)
	if g == "" && kind != "PersistentVolumeClaim" {
		errs = append(errs, field.Invalid(path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup"))
	}
	if g != "" {
		errs = append(errs, check.Subdomain(g, path.Child("apiGroup"))...)
	}
	return errs
}

func checkClaimUpdate(c, old *corev1.PersistentVolumeClaim) field.ErrorList {
	selectors := metav1validation.LabelSelectorValidationOptions{
		AllowInvalidLabelValueInSelector: old.Spec.Selector != nil && metav1validation.LabelSelectorHasInvalidLabelValue(old.Spec.Selector),
	}
	path := field.NewPath("spec")
	errs := checkClaimSpec(&c.Spec, path, selectors)
	now, was := c.Spec.DeepCopy(), old.Spec.DeepCopy()
	normalizeDataSources(was, nil)
	if was.VolumeName == "" {
		was.VolumeName = now.VolumeName // it is bound by setting it
	}
	annotation := corev1.BetaStorageClassAnnotation
	switch class := old.Annotations[annotation]; {
	case class != "" && c.Annotations[annotation] == "" && was.StorageClassName == nil && now.StorageClassName != nil && *now.StorageClassName == class:
		now.StorageClassName = nil // it moved from the annotation to the field
	case class != c.Annotations[annotation]:
		errs = append(errs, field.Invalid(field.NewPath("metadata", "annotations").Key(annotation), c.Annotations[annotation], "field is immutable"))
	case class == "" && was.StorageClassName == nil && now.StorageClassName != nil:
		was.StorageClassName = now.StorageClassName // the default may come to be known later
	}
	if c.Status.Phase == corev1.ClaimBound && now.Resources.Requests != nil {
		now.Resources.Requests[corev1.ResourceStorage] = was.Resources.Requests[corev1.ResourceStorage]
	}
	was.VolumeAttributesClassName = now.VolumeAttributesClassName
	if !equality.Semantic.DeepEqual(now, was) {
		errs = append(errs, field.Forbidden(path, fmt.Sprintf(
			"spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n%v",
			diff.Diff(quote.Of(*was), quote.Of(*now)))))
	}
	size, before := c.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
	if actual := old.Status.Capacity[corev1.ResourceStorage]; size.Cmp(before) < 0 && size.Cmp(actual) < 0 {
		errs = append(errs, field.Forbidden(path.Child("resources", "requests", "storage"), "field can not be less than status.capacity"))
	}
	errs = append(errs, check.Immutable(c.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode"))...)
	return append(errs, checkAttributesChange(c, old, path.Child("volumeAttributesClassName"))...)
}

func checkAttributesChange(c, old *corev1.PersistentVolumeClaim, path *field.Path) field.ErrorList {
	was, now := old.Spec.VolumeAttributesClassName, c.Spec.VolumeAttributesClassName
	switch {
	case was == nil || *was == "":
		return nil
	case now == nil:
		return field.ErrorList{field.Forbidden(path, "update from non-nil value to nil is forbidden")}
	case *now == "" && old.Status.CurrentVolumeAttributesClassName != nil:
		return field.ErrorList{field.Forbidden(path, "update from non-nil value to an empty string is forbidden")}
	}
	return nil
}

var resizeStates = []corev1.ClaimResourceStatus{
	corev1.PersistentVolumeClaimControllerResizeInProgress, corev1.PersistentVolumeClaimControllerResizeInfeasible,
	corev1.PersistentVolumeClaimNodeResizePending, corev1.PersistentVolumeClaimNodeResizeInProgress,
	corev1.PersistentVolumeClaimNodeResizeInfeasible,
}

func checkClaimStatus(c, _ *corev1.PersistentVolumeClaim) field.ErrorList {
	var errs field.ErrorList
	if c.ResourceVersion == "" {
		errs = append(errs, field.Required(field.NewPath("resourceVersion"), ""))
	}
	if len(c.Spec.AccessModes) == 0 {
		errs = append(errs, field.Required(field.NewPath("Spec", "accessModes"), ""))
	}
	path := field.NewPath("status")
	for _, name := range sortedNames(c.Status.Capacity) {
		errs = append(errs, check.NonNegativeQuantity(c.Status.Capacity[name], path.Child("capacity").Key(string(name)))...)
	}
	for name, state := range c.Status.AllocatedResourceStatuses {
		if !slices.Contains(resizeStates, state) {
			errs = append(errs, field.NotSupported(path.Child("allocatedResourceStatus").Key(string(name)), state, resizeStates))
		}
	}
	for _, name := range sortedNames(c.Status.AllocatedResources) {
		errs = append(errs, check.NonNegativeQuantity(c.Status.AllocatedResources[name], path.Child("allocatedResources").Key(string(name)))...)
	}
	return errs
}

func claimWarnings(c *corev1.PersistentVolumeClaim) []string {
	var out []string
	if _, there := c.Annotations[corev1.BetaStorageClassAnnotation]; there {
		out = append(out, oldClassAnnotation)
	}
	if q := c.Spec.Resources.Requests[corev1.ResourceStorage]; q.MilliValue()%1000 != 0 {
		out = append(out, fmt.Sprintf("spec.resources.requests[storage]: fractional byte value %q is invalid, must be an integer", q.String()))
	}
	return out
}

const oldClassAnnotation = "metadata.annotations[" + corev1.BetaStorageClassAnnotation + `]: deprecated since v1.8; use "storageClassName" attribute instead`
