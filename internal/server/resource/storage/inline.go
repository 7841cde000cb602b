package storage

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource/check"
	"github.com/millrace/millrace/internal/server/resource/podspec"
)

// checkInline validates an inline volume of an attachment: it must contain what is needed to reach the volume, and
// nothing else.
func checkInline(s *corev1.PersistentVolumeSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	forbid := func(there bool, name string) {
		if there {
			errs = append(errs, field.Forbidden(path.Child(name), "may not be specified in the context of inline volumes"))
		}
	}
	forbid(s.ClaimRef != nil, "claimRef")
	forbid(s.Capacity != nil, "capacity")
	if s.CSI == nil {
		errs = append(errs, field.Required(path.Child("csi"), "has to be specified in the context of inline volumes"))
	}
	forbid(s.NodeAffinity != nil, "nodeAffinity")
	forbid(s.StorageClassName != "", "storageClassName")
	if s.VolumeMode != nil && *s.VolumeMode != corev1.PersistentVolumeFilesystem {
		errs = append(errs, field.Forbidden(path.Child("volumeMode"), "may not specify volumeMode other than Filesystem in the context of inline volumes"))
	}
	if len(s.AccessModes) == 0 {
		errs = append(errs, field.Required(path.Child("accessModes"), ""))
	}
	errs = append(errs, podspec.ValidateAccessModes(s.AccessModes, path.Child("accessModes"))...)
	sources := 0
	for _, source := range reflect.ValueOf(s.PersistentVolumeSource).Fields() {
		if !source.IsNil() {
			sources++
		}
	}
	switch {
	case sources == 0:
		errs = append(errs, field.Required(path, "must specify a volume type"))
	case s.CSI != nil && sources > 1:
		errs = append(errs, field.Forbidden(path.Child("csi"), "may not specify more than 1 volume type"))
	case s.CSI != nil:
		errs = append(errs, checkInlineCSI(s.CSI, path.Child("csi"))...)
	}
	return errs
}

func checkInlineCSI(c *corev1.CSIPersistentVolumeSource, path *field.Path) field.ErrorList {
	errs := check.DriverName(c.Driver, path.Child("driver"))
	if c.VolumeHandle == "" {
		errs = append(errs, field.Required(path.Child("volumeHandle"), ""))
	}
	for _, ref := range []struct {
		name string
		ref  *corev1.SecretReference
	}{
		{"controllerPublishSecretRef", c.ControllerPublishSecretRef}, {"controllerExpandSecretRef", c.ControllerExpandSecretRef},
		{"nodePublishSecretRef", c.NodePublishSecretRef}, {"nodeExpandSecretRef", c.NodeExpandSecretRef},
	} {
		if ref.ref != nil && ref.ref.Name == "" {
			errs = append(errs, field.Required(path.Child(ref.name, "name"), ""))
		}
		if ref.ref != nil && ref.ref.Namespace == "" {
			errs = append(errs, field.Required(path.Child(ref.name, "namespace"), ""))
		}
	}
	return errs
}
