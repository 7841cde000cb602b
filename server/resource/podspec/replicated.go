package podspec

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/server/resource"
)

// OptionsFrom reads from a request's context what the server allows.
func OptionsFrom(ctx context.Context) Options {
	return Options{AllowPrivileged: resource.CallFrom(ctx).AllowPrivileged}
}

// ValidateSelected wants a template's labels to be those that a selector is after.
func ValidateSelected(t *corev1.PodTemplateSpec, selector labels.Selector, path *field.Path) field.ErrorList {
	if selector.Empty() || selector.Matches(labels.Set(t.Labels)) {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("metadata", "labels"), t.Labels, "`selector` does not match template `labels`")}
}

// ValidateKept checks the template of pods that a controller of some kind keeps running.
func ValidateKept(t *corev1.PodTemplateSpec, path *field.Path, kind string) field.ErrorList {
	var errs field.ErrorList
	if p := t.Spec.RestartPolicy; p != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(path.Child("spec", "restartPolicy"), p, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if t.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(path.Child("spec", "activeDeadlineSeconds"), "activeDeadlineSeconds in "+kind+" is not Supported"))
	}
	return errs
}

// ValidateShared refuses disks that only one pod can write to.
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
