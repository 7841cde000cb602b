package core

import (
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource/check"
	"github.com/millrace/millrace/internal/server/resource/podspec"
	"github.com/millrace/millrace/internal/server/resource/quote"
)

func checkVolume(pv *corev1.PersistentVolume) field.ErrorList {
	s, at := &pv.Spec, field.NewPath("spec")
	var errs field.ErrorList
	if len(s.AccessModes) == 0 {
		errs = append(errs, field.Required(at.Child("accessModes"), ""))
	}
	errs = append(errs, podspec.ValidateAccessModes(s.AccessModes, at.Child("accessModes"))...)
	errs = append(errs, checkVolumeCapacity(s.Capacity, at.Child("capacity"))...)
	if s.PersistentVolumeReclaimPolicy != "" {
		errs = append(errs, check.OneOf(s.PersistentVolumeReclaimPolicy, at.Child("persistentVolumeReclaimPolicy"),
			corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain)...)
	}
	if a := s.NodeAffinity; a != nil {
		errs = append(errs, checkVolumeAffinity(a, at.Child("nodeAffinity"))...)
	}
	errs = append(errs, checkOneSource(&s.PersistentVolumeSource, at)...)
	if s.Local != nil && s.NodeAffinity == nil {
		errs = append(errs, field.Required(at.Child("nodeAffinity"), "Local volume requires node affinity"))
	}
	if h := s.HostPath; h != nil && path.Clean(h.Path) == "/" && s.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		errs = append(errs, field.Forbidden(at.Child("persistentVolumeReclaimPolicy"), "may not be 'recycle' for a hostPath mount of '/'"))
	}
	if s.StorageClassName != "" {
		errs = append(errs, check.Subdomain(s.StorageClassName, at.Child("storageClassName"))...)
	}
	if s.VolumeMode != nil {
		errs = append(errs, podspec.ValidateVolumeMode(*s.VolumeMode, at.Child("volumeMode"))...)
	}
	if name := s.VolumeAttributesClassName; name != nil {
		if *name == "" {
			errs = append(errs, field.Required(at.Child("volumeAttributesClassName"), "an empty string is disallowed"))
		} else {
			errs = append(errs, check.Subdomain(*name, at.Child("volumeAttributesClassName"))...)
		}
		if s.CSI == nil {
			errs = append(errs, field.Required(at.Child("csi"), "has to be specified when using volumeAttributesClassName"))
		}
	}
	return errs
}

func checkVolumeCapacity(list corev1.ResourceList, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(list) == 0 {
		errs = append(errs, field.Required(at, ""))
	}
	if _, there := list[corev1.ResourceStorage]; !there || len(list) > 1 {
		errs = append(errs, field.NotSupported(at, list, []corev1.ResourceName{corev1.ResourceStorage}))
	}
	for _, name := range sortedNames(list) {
		if q := list[name]; q.Sign() < 0 {
			errs = append(errs, field.Invalid(at.Key(string(name)), q.Value(), "must be a valid resource quantity"))
		}
		errs = append(errs, check.PositiveQuantity(list[name], at.Key(string(name)))...)
	}
	return errs
}

func checkVolumeAffinity(a *corev1.VolumeNodeAffinity, at *field.Path) field.ErrorList {
	if a.Required == nil {
		return field.ErrorList{field.Required(at.Child("required"), "must specify required node constraints")}
	}
	return podspec.ValidateNodeSelector(a.Required, at.Child("required"))
}

func checkVolumeUpdate(pv, old *corev1.PersistentVolume) field.ErrorList {
	errs := checkVolume(pv)
	errs = append(errs, errs...) // Kubernetes validates it twice
	now, was := &pv.Spec, &old.Spec
	if !equality.Semantic.DeepEqual(withoutExpandSecret(now, was), was.PersistentVolumeSource) {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "persistentvolumesource"),
			fmt.Sprintf("spec.persistentvolumesource is immutable after creation\n%v", diff.Diff(quote.Of(was.PersistentVolumeSource), quote.Of(now.PersistentVolumeSource)))))
	}
	errs = append(errs, check.Immutable(now.VolumeMode, was.VolumeMode, field.NewPath("volumeMode"))...)
	if was.NodeAffinity != nil {
		errs = append(errs, check.Immutable(now.NodeAffinity, was.NodeAffinity, field.NewPath("nodeAffinity"))...)
	}
	if was.VolumeAttributesClassName != nil && now.VolumeAttributesClassName == nil {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "volumeAttributesClassName"), "update from non-nil value to nil is forbidden"))
	}
	return errs
}

// withoutExpandSecret returns the old source with the secret of the new one, which is the only part that may be added
// later.
func withoutExpandSecret(now, was *corev1.PersistentVolumeSpec) corev1.PersistentVolumeSource {
	s := now.PersistentVolumeSource
	if s.CSI != nil && was.CSI != nil && was.CSI.ControllerExpandSecretRef == nil {
		csi := *s.CSI
		csi.ControllerExpandSecretRef = nil
		s.CSI = &csi
	}
	return s
}

func volumeWarnings(pv *corev1.PersistentVolume) []string {
	var out []string
	if pv.Annotations[corev1.BetaStorageClassAnnotation] != "" {
		out = append(out, oldClassAnnotation)
	}
	if pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		out = append(out, `spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.`)
	}
	for _, gone := range deprecatedSources(&pv.Spec.PersistentVolumeSource) {
		out = append(out, "spec."+gone)
	}
	return out
}

func deprecatedSources(s *corev1.PersistentVolumeSource) []string {
	var out []string
	note := func(is bool, text string) {
		if is {
			out = append(out, text)
		}
	}
	note(s.PhotonPersistentDisk != nil, "photonPersistentDisk: deprecated in v1.11, non-functional in v1.16+")
	note(s.ScaleIO != nil, "scaleIO: deprecated in v1.16, non-functional in v1.22+")
	note(s.StorageOS != nil, "storageOS: deprecated in v1.22, non-functional in v1.25+")
	note(s.Glusterfs != nil, "glusterfs: deprecated in v1.25, non-functional in v1.26+")
	note(s.CephFS != nil, "cephfs: deprecated in v1.28, non-functional in v1.31+")
	note(s.RBD != nil, "rbd: deprecated in v1.28, non-functional in v1.31+")
	return out
}

func backsteps(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." {
			return true
		}
	}
	return false
}
