package persistentvolume

import (
	corev1 "k8s.io/api/core/v1"
)

// Census has the numbers of volumes and claims.
type Census struct {
	Volumes map[VolumeSort]int
	// Bound and Unbound are volumes, by class.
	Bound, Unbound map[string]int
	// BoundClaims and UnboundClaims are claims.
	BoundClaims, UnboundClaims map[ClaimSort]int
}

// VolumeSort is the volume plugin of a volume, and how it is used.
type VolumeSort struct {
	Plugin string
	Mode   corev1.PersistentVolumeMode
}

// ClaimSort is where a claim is, and its classes.
type ClaimSort struct{ Namespace, Class, Attributes string }

func (r *controller) census() Census {
	c := Census{
		Volumes: map[VolumeSort]int{}, Bound: map[string]int{}, Unbound: map[string]int{},
		BoundClaims: map[ClaimSort]int{}, UnboundClaims: map[ClaimSort]int{},
	}
	for v := range r.volumes.List() {
		c.Volumes[VolumeSort{PluginOf(v), modeOf(v.Spec.VolumeMode)}]++
		if v.Status.Phase == corev1.VolumeBound {
			c.Bound[v.Spec.StorageClassName]++
		} else {
			c.Unbound[v.Spec.StorageClassName]++
		}
	}
	for claim := range r.claims.List() {
		sort := ClaimSort{Namespace: claim.Namespace, Class: ClassOfClaim(claim)}
		if a := claim.Spec.VolumeAttributesClassName; a != nil {
			sort.Attributes = *a
		}
		if claim.Status.Phase == corev1.ClaimBound {
			c.BoundClaims[sort]++
		} else {
			c.UnboundClaims[sort]++
		}
	}
	return c
}

// PluginOf returns Kubernetes' name of the plugin that mounts a volume, and "N/A" if there is none.
func PluginOf(v *corev1.PersistentVolume) string {
	s := &v.Spec.PersistentVolumeSource
	switch {
	case s.CSI != nil:
		return "kubernetes.io/csi:" + s.CSI.Driver
	case s.HostPath != nil:
		return "kubernetes.io/host-path"
	case s.Local != nil:
		return "kubernetes.io/local-volume"
	case s.NFS != nil:
		return "kubernetes.io/nfs"
	case s.ISCSI != nil:
		return "kubernetes.io/iscsi"
	case s.FC != nil:
		return "kubernetes.io/fc"
	}
	return "N/A"
}
