package podspec

import (
	corev1 "k8s.io/api/core/v1"
)

const defaultCertificateSeconds int32 = 24 * 60 * 60

func defaultVolume(v *corev1.Volume) {
	if v.VolumeSource == (corev1.VolumeSource{}) {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
		return
	}
	switch {
	case v.HostPath != nil:
		orNew(&v.HostPath.Type, corev1.HostPathUnset)
	case v.Secret != nil:
		orNew(&v.Secret.DefaultMode, defaultMode)
	case v.ConfigMap != nil:
		orNew(&v.ConfigMap.DefaultMode, defaultMode)
	case v.DownwardAPI != nil:
		orNew(&v.DownwardAPI.DefaultMode, defaultMode)
		defaultDownward(v.DownwardAPI.Items)
	case v.Projected != nil:
		defaultProjected(v.Projected)
	case v.Ephemeral != nil:
		if t := v.Ephemeral.VolumeClaimTemplate; t != nil {
			DefaultClaim(&t.Spec)
		}
	case v.Image != nil:
		if v.Image.PullPolicy == "" {
			v.Image.PullPolicy = pullPolicy(v.Image.Reference)
		}
	default:
		defaultOldVolume(v)
	}
}

// defaultOldVolume sets defaults of volumes that are older than CSI.
func defaultOldVolume(v *corev1.Volume) {
	switch {
	case v.ISCSI != nil:
		orElse(&v.ISCSI.ISCSIInterface, "default")
	case v.RBD != nil:
		orElse(&v.RBD.RBDPool, "rbd")
		orElse(&v.RBD.RadosUser, "admin")
		orElse(&v.RBD.Keyring, "/etc/ceph/keyring")
	case v.ScaleIO != nil:
		orElse(&v.ScaleIO.StorageMode, "ThinProvisioned")
		orElse(&v.ScaleIO.FSType, "xfs")
	case v.AzureDisk != nil:
		orNew(&v.AzureDisk.CachingMode, corev1.AzureDataDiskCachingReadWrite)
		orNew(&v.AzureDisk.Kind, corev1.AzureSharedBlobDisk)
		orNew(&v.AzureDisk.FSType, "ext4")
		orNew(&v.AzureDisk.ReadOnly, false)
	}
}

func defaultProjected(p *corev1.ProjectedVolumeSource) {
	orNew(&p.DefaultMode, defaultMode)
	for i := range p.Sources {
		if d := p.Sources[i].DownwardAPI; d != nil {
			defaultDownward(d.Items)
		}
		if t := p.Sources[i].ServiceAccountToken; t != nil {
			orNew(&t.ExpirationSeconds, defaultTokenSeconds)
		}
		if c := p.Sources[i].PodCertificate; c != nil {
			orNew(&c.MaxExpirationSeconds, defaultCertificateSeconds)
		}
	}
}

func defaultDownward(items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		if r := items[i].FieldRef; r != nil {
			orElse(&r.APIVersion, fieldsOfThisVersion)
		}
	}
}

// DefaultClaim sets the defaults in the spec of a claim.
func DefaultClaim(s *corev1.PersistentVolumeClaimSpec) {
	orNew(&s.VolumeMode, corev1.PersistentVolumeFilesystem)
	roundUp(s.Resources.Limits)
	roundUp(s.Resources.Requests)
}
