package podspec

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource/check"
)

func (x *examiner) ephemeralVolume(p fieldPath, s *corev1.EphemeralVolumeSource) {
	t := p.child("volumeClaimTemplate")
	if s.VolumeClaimTemplate == nil {
		x.required(t, "")
		return
	}
	x.claimMetadata(t, &s.VolumeClaimTemplate.ObjectMeta)
	x.errs = append(x.errs, ValidateClaimSpec(&s.VolumeClaimTemplate.Spec, x.path(t.child("spec")), metavalidation.LabelSelectorValidationOptions{})...)
}

// claimMetadata allows only labels and annotations: the claim gets the rest from its pod.
func (x *examiner) claimMetadata(p fieldPath, m *metav1.ObjectMeta) {
	at := p.child("metadata")
	if len(m.Annotations) > 0 {
		x.errs = append(x.errs, validation.ValidateAnnotations(m.Annotations, x.path(at.child("annotations")))...)
	}
	if len(m.Labels) > 0 {
		x.errs = append(x.errs, metavalidation.ValidateLabels(m.Labels, x.path(at.child("labels")))...)
	}
	for _, f := range [...]struct {
		name string
		set  bool
	}{
		{"name", m.Name != ""}, {"generateName", m.GenerateName != ""}, {"namespace", m.Namespace != ""}, {"selfLink", m.SelfLink != ""},
		{"uID", m.UID != ""}, {"resourceVersion", m.ResourceVersion != ""}, {"generation", m.Generation != 0},
		{"creationTimestamp", !m.CreationTimestamp.IsZero()}, {"deletionTimestamp", m.DeletionTimestamp != nil},
		{"deletionGracePeriodSeconds", m.DeletionGracePeriodSeconds != nil}, {"ownerReferences", m.OwnerReferences != nil},
		{"finalizers", m.Finalizers != nil}, {"managedFields", m.ManagedFields != nil},
	} {
		if f.set {
			x.forbidden(at.child(f.name), "cannot be set")
		}
	}
}

// ValidateClaimSpec validates the spec of a persistent volume claim.
func ValidateClaimSpec(s *corev1.PersistentVolumeClaimSpec, path *field.Path, selectors metavalidation.LabelSelectorValidationOptions) field.ErrorList {
	var errs field.ErrorList
	if len(s.AccessModes) == 0 {
		errs = append(errs, field.Required(path.Child("accessModes"), "at least 1 access mode is required"))
	}
	if s.Selector != nil {
		errs = append(errs, metavalidation.ValidateLabelSelector(s.Selector, selectors, path.Child("selector"))...)
	}
	errs = append(errs, ValidateAccessModes(s.AccessModes, path.Child("accessModes"))...)
	if size, there := s.Resources.Requests[corev1.ResourceStorage]; !there {
		errs = append(errs, field.Required(path.Child("resources").Key("storage"), ""))
	} else {
		errs = append(errs, check.PositiveQuantity(size, path.Child("resources").Key("storage"))...)
	}
	if name := s.StorageClassName; name != nil && *name != "" {
		errs = append(errs, check.Subdomain(*name, path.Child("storageClassName"))...)
	}
	if s.VolumeMode != nil {
		errs = append(errs, ValidateVolumeMode(*s.VolumeMode, path.Child("volumeMode"))...)
	}
	if name := s.VolumeAttributesClassName; name != nil && *name != "" {
		errs = append(errs, check.Subdomain(*name, path.Child("volumeAttributesClassName"))...)
	}
	return append(errs, dataSources(s, path)...)
}

// ValidateVolumeMode requires a known volume mode.
func ValidateVolumeMode(m corev1.PersistentVolumeMode, path *field.Path) field.ErrorList {
	return check.OneOf(m, path, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)
}

// ValidateAccessModes requires known access modes that can be combined.
func ValidateAccessModes(modes []corev1.PersistentVolumeAccessMode, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, m := range modes {
		errs = append(errs, check.OneOf(m, path, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod)...)
	}
	alone := slices.Contains(modes, corev1.ReadWriteOncePod)
	others := slices.ContainsFunc(modes, func(m corev1.PersistentVolumeAccessMode) bool {
		return m == corev1.ReadOnlyMany || m == corev1.ReadWriteMany || m == corev1.ReadWriteOnce
	})
	if alone && others {
		errs = append(errs, field.Forbidden(path, "may not use ReadWriteOncePod with other access modes"))
	}
	return errs
}

func dataSources(s *corev1.PersistentVolumeClaimSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if d := s.DataSource; d != nil {
		errs = append(errs, dataSource(d.APIGroup, d.Kind, d.Name, path.Child("dataSource"))...)
	}
	r := s.DataSourceRef
	if r == nil {
		return errs
	}
	errs = append(errs, dataSource(r.APIGroup, r.Kind, r.Name, path.Child("dataSourceRef"))...)
	if r.Namespace != nil && *r.Namespace != "" {
		errs = append(errs, check.Label(*r.Namespace, path.Child("dataSourceRef", "namespace"))...)
	}
	switch d := s.DataSource; {
	case d == nil:
	case r.Namespace != nil && *r.Namespace != "":
		errs = append(errs, field.Invalid(path, path.Child("dataSource"), "may not be specified when dataSourceRef.namespace is specified"))
	case groupOf(d.APIGroup) != groupOf(r.APIGroup) || d.Kind != r.Kind || d.Name != r.Name:
		errs = append(errs, field.Invalid(path, path.Child("dataSource"), "must match dataSourceRef"))
	}
	return errs
}

func groupOf(g *string) string {
	if g == nil {
		return ""
	}
	return *g
}

func dataSource(group *string, kind, name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	if kind == "" {
		errs = append(errs, field.Required(path.Child("kind"), ""))
	}
	g := groupOf(group)
	if g == "" && kind != "PersistentVolumeClaim" {
		errs = append(errs, field.Invalid(path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup"))
	}
	if g != "" {
		errs = append(errs, check.Subdomain(g, path.Child("apiGroup"))...)
	}
	return errs
}
