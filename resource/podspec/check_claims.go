package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (x *examiner) ephemeralVolume(p *place, s *corev1.EphemeralVolumeSource) {
	t := p.child("volumeClaimTemplate")
	if s.VolumeClaimTemplate == nil {
		x.required(&t, "")
		return
	}
	spec := t.child("spec")
	x.claimSpec(&spec, &s.VolumeClaimTemplate.Spec)
}

func ValidateClaimSpec(s *corev1.PersistentVolumeClaimSpec, root *field.Path) field.ErrorList {
	var x examiner
	p := x.at(root)
	x.claimSpec(&p, s)
	return x.errs
}

func (x *examiner) claimSpec(p *place, s *corev1.PersistentVolumeClaimSpec) {
	modes := p.child("accessModes")
	if len(s.AccessModes) == 0 {
		x.required(&modes, "at least 1 access mode is required")
	}
	x.labelSelector(p, "selector", s.Selector)
	alone := false
	for _, m := range s.AccessModes {
		alone = alone || m == corev1.ReadWriteOncePod
		oneOf(&x.findings, &modes, m, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod)
	}
	if alone && len(s.AccessModes) > 1 {
		x.forbidden(&modes, "may not use ReadWriteOncePod with other access modes")
	}
	resources := p.child("resources")
	c := resources.keyed(string(corev1.ResourceStorage))
	switch size, asked := s.Resources.Requests[corev1.ResourceStorage]; {
	case !asked:
		x.required(&c, "")
	case size.Sign() <= 0:
		x.invalid(&c, size.String(), "must be greater than zero")
	}
	if n := s.StorageClassName; n != nil && *n != "" {
		class := p.child("storageClassName")
		x.invalidAll(&class, *n, subdomain(*n))
	}
	if m := s.VolumeMode; m != nil {
		mode := p.child("volumeMode")
		oneOf(&x.findings, &mode, *m, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)
	}
}
