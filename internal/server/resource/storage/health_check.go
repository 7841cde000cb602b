package storage

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource/check"
)

const (
	maxHealthConditions = 16
	maxHealthReason     = 256
	maxHealthMessage    = 1024
)

var (
	healthStatuses = []storagev1.StorageHealthStatusType{storagev1.StorageDegraded, storagev1.StorageUnreachable}
	accessModes    = []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod}
	volumeModes    = []corev1.PersistentVolumeMode{corev1.PersistentVolumeFilesystem, corev1.PersistentVolumeBlock}
)

// checkHealth checks what the drivers of a node say of their storage.
func checkHealth(n *storagev1.CSINode) field.ErrorList {
	var errs field.ErrorList
	names := map[string]bool{}
	for i := range n.Status.StorageHealth {
		h, at := &n.Status.StorageHealth[i], field.NewPath("status", "storageHealth").Index(i)
		if names[h.Name] {
			errs = append(errs, field.Duplicate(at, h.Name))
		}
		names[h.Name] = true
		errs = append(errs, checkDriverHealth(h, at)...)
	}
	return errs
}

func checkDriverHealth(h *storagev1.StorageHealth, path *field.Path) field.ErrorList {
	errs := check.DriverName(h.Name, path.Child("name"))
	path = path.Child("healthConditions")
	if n := len(h.HealthConditions); n > maxHealthConditions {
		return append(errs, field.TooMany(path, n, maxHealthConditions))
	}
	for i := range h.HealthConditions {
		errs = append(errs, checkHealthCondition(&h.HealthConditions[i], path.Index(i))...)
	}
	return errs
}

func checkHealthCondition(c *storagev1.StorageHealthCondition, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if !slices.Contains(healthStatuses, c.Status) {
		errs = append(errs, field.NotSupported(path.Child("status"), c.Status, healthStatuses))
	}
	switch reason := path.Child("reason"); {
	case c.Reason == "":
		errs = append(errs, field.Required(reason, ""))
	default:
		for _, wrong := range metav1validation.IsValidConditionReason(c.Reason) {
			errs = append(errs, field.Invalid(reason, c.Reason, wrong))
		}
		if len(c.Reason) > maxHealthReason {
			errs = append(errs, field.TooLong(reason, c.Reason, maxHealthReason))
		}
	}
	if len(c.Message) > maxHealthMessage {
		errs = append(errs, field.TooLong(path.Child("message"), c.Message, maxHealthMessage))
	}
	if c.AccessMode != nil && !slices.Contains(accessModes, *c.AccessMode) {
		errs = append(errs, field.NotSupported(path.Child("accessMode"), *c.AccessMode, accessModes))
	}
	if c.VolumeMode != nil && !slices.Contains(volumeModes, *c.VolumeMode) {
		errs = append(errs, field.NotSupported(path.Child("volumeMode"), *c.VolumeMode, volumeModes))
	}
	return errs
}
