package persistentvolume

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Annotations of volumes and claims.
const (
	bindCompleted     = "pv.kubernetes.io/bind-completed"
	boundByController = "pv.kubernetes.io/bound-by-controller"
	// ProvisionedBy is the volume annotation with its provisioner.
	ProvisionedBy = "pv.kubernetes.io/provisioned-by"
	// StorageProvisioner is the claim annotation with the provisioner that must make a volume.
	StorageProvisioner     = "volume.kubernetes.io/storage-provisioner"
	storageProvisionerBeta = "volume.beta.kubernetes.io/storage-provisioner"
	// SelectedNode is the claim annotation that the scheduler sets: the volume must be usable on that node.
	SelectedNode = "volume.kubernetes.io/selected-node"
	migratedTo   = "pv.kubernetes.io/migrated-to"

	isDefaultClass     = "storageclass.kubernetes.io/is-default-class"
	isDefaultClassBeta = "storageclass.beta.kubernetes.io/is-default-class"
)

// ClassOfVolume returns the class of a volume. The deprecated annotation has precedence over the field.
func ClassOfVolume(v *corev1.PersistentVolume) string {
	if class, old := v.Annotations[corev1.BetaStorageClassAnnotation]; old {
		return class
	}
	return v.Spec.StorageClassName
}

// ClassOfClaim returns the class of a claim.
func ClassOfClaim(c *corev1.PersistentVolumeClaim) string {
	class, _ := classOfClaim(c)
	return class
}

// classOfClaim also returns whether a claim names a class, which may be the empty one.
func classOfClaim(c *corev1.PersistentVolumeClaim) (class string, named bool) {
	if class, old := c.Annotations[corev1.BetaStorageClassAnnotation]; old {
		return class, true
	}
	if c.Spec.StorageClassName == nil {
		return "", false
	}
	return *c.Spec.StorageClassName, true
}

func waitsForConsumer(class *storagev1.StorageClass) bool {
	return class != nil && class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// class returns a claim's storage class, or nil.
func (r *controller) class(c *corev1.PersistentVolumeClaim) *storagev1.StorageClass {
	name := ClassOfClaim(c)
	if name == "" {
		return nil
	}
	class, ok := r.classes.Get("", name)
	if !ok {
		return nil
	}
	return class
}

// defaultClass returns the newest of the default storage classes.
func (r *controller) defaultClass() (best *storagev1.StorageClass) {
	for class := range r.classes.List() {
		if class.Annotations[isDefaultClass] != "true" && class.Annotations[isDefaultClassBeta] != "true" {
			continue
		}
		if best == nil || cmp.Or(best.CreationTimestamp.Compare(class.CreationTimestamp.Time), cmp.Compare(class.Name, best.Name)) < 0 {
			best = class
		}
	}
	return best
}

func modeOf(m *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
	if m == nil {
		return corev1.PersistentVolumeFilesystem
	}
	return *m
}

func hasModes(v *corev1.PersistentVolume, c *corev1.PersistentVolumeClaim) bool {
	for _, mode := range c.Spec.AccessModes {
		if !slices.Contains(v.Spec.AccessModes, mode) {
			return false
		}
	}
	return true
}
