package core

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource/check"
	"github.com/millrace/millrace/internal/server/resource/podspec"
	"github.com/millrace/millrace/internal/server/resource/quote"
)

func checkClaim(c *corev1.PersistentVolumeClaim) field.ErrorList {
	return podspec.ValidateClaimSpec(&c.Spec, field.NewPath("spec"), metav1validation.LabelSelectorValidationOptions{})
}

func checkClaimUpdate(c, old *corev1.PersistentVolumeClaim) field.ErrorList {
	selectors := metav1validation.LabelSelectorValidationOptions{
		AllowInvalidLabelValueInSelector: old.Spec.Selector != nil && metav1validation.LabelSelectorHasInvalidLabelValue(old.Spec.Selector),
	}
	path := field.NewPath("spec")
	errs := podspec.ValidateClaimSpec(&c.Spec, path, selectors)
	now, was := c.Spec.DeepCopy(), old.Spec.DeepCopy()
	normalizeDataSources(was, nil)
	if was.VolumeName == "" {
		was.VolumeName = now.VolumeName // setting it binds the claim
	}
	annotation := corev1.BetaStorageClassAnnotation
	switch class := old.Annotations[annotation]; {
	case class != "" && c.Annotations[annotation] == "" && was.StorageClassName == nil && now.StorageClassName != nil && *now.StorageClassName == class:
		now.StorageClassName = nil // it moved from the annotation to the field
	case class != c.Annotations[annotation]:
		errs = append(errs, field.Invalid(field.NewPath("metadata", "annotations").Key(annotation), c.Annotations[annotation], "field is immutable"))
	case class == "" && was.StorageClassName == nil && now.StorageClassName != nil:
		was.StorageClassName = now.StorageClassName // the default class may be set later
	}
	if c.Status.Phase == corev1.ClaimBound {
		if now.Resources.Requests != nil {
			now.Resources.Requests[corev1.ResourceStorage] = was.Resources.Requests[corev1.ResourceStorage]
		}
		was.VolumeAttributesClassName = now.VolumeAttributesClassName
	}
	if !equality.Semantic.DeepEqual(now, was) {
		errs = append(errs, field.Forbidden(path, fmt.Sprintf(
			"spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n%v",
			diff.Diff(quote.Of(*was), quote.Of(*now)))))
	}
	size, before := c.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
	if actual := old.Status.Capacity[corev1.ResourceStorage]; size.Cmp(before) < 0 && size.Cmp(actual) <= 0 {
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
	return append(out, podspec.ClaimWarnings(&c.Spec, field.NewPath("spec", "resources"))...)
}

const oldClassAnnotation = "metadata.annotations[" + corev1.BetaStorageClassAnnotation + `]: deprecated since v1.8; use "storageClassName" attribute instead`
