package podspec

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
)

// OptionsFrom returns the server's settings in a request's context.
func OptionsFrom(ctx context.Context) Options {
	return Options{AllowPrivileged: resource.CallFrom(ctx).AllowPrivileged}
}

// ValidateSelected requires that a selector matches a template's labels.
func ValidateSelected(t *corev1.PodTemplateSpec, selector labels.Selector, path *field.Path) field.ErrorList {
	if selector.Empty() || selector.Matches(labels.Set(t.Labels)) {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("metadata", "labels"), t.Labels, "`selector` does not match template `labels`")}
}

// ValidateRunningTemplate validates the template of a controller that keeps pods running; kind is used in messages.
func ValidateRunningTemplate(t *corev1.PodTemplateSpec, path *field.Path, kind string) field.ErrorList {
	var errs field.ErrorList
	if p := t.Spec.RestartPolicy; p != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(path.Child("spec", "restartPolicy"), p, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if t.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(path.Child("spec", "activeDeadlineSeconds"), "activeDeadlineSeconds in "+kind+" is not Supported"))
	}
	return errs
}

// ValidateShared refuses disks to which only one pod can write.
func ValidateShared(t *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range t.Spec.Volumes {
		if d := t.Spec.Volumes[i].GCEPersistentDisk; d != nil && !d.ReadOnly {
			errs = append(errs, field.Invalid(path.Child("spec", "volumes").Index(i).Child("gcePersistentDisk", "readOnly"), false,
				"must be true for replicated pods > 1; GCE PD can only be mounted on multiple machines if it is read-only"))
		}
	}
	return errs
}
