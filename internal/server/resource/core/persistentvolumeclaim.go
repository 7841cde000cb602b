package core

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// PersistentVolumeClaims request a volume.
func PersistentVolumeClaims() *resource.Kind {
	spec, status := corev1.PersistentVolumeClaimSpec{}.SwaggerDoc(), corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()
	return resource.Define(resource.Description[*corev1.PersistentVolumeClaim]{
		Group: "", Version: "v1", Kind: "PersistentVolumeClaim", Resource: "persistentvolumeclaims",
		ValidateMetaTwice: true,
		Namespaced:        true, ShortNames: []string{"pvc"},
		NoGeneration: true, UnconditionalUpdate: true, ReturnDeleted: true,
		Default: defaultClaim,
		Rules: resource.Rules[*corev1.PersistentVolumeClaim]{
			PrepareCreate: func(_ context.Context, c *corev1.PersistentVolumeClaim) { prepareClaim(c) },
			PrepareUpdate: func(_ context.Context, c, old *corev1.PersistentVolumeClaim) {
				dropForeignSource(&c.Spec)
				normalizeDataSources(&c.Spec, &old.Spec)
			},
			Validate: func(_ context.Context, c *corev1.PersistentVolumeClaim) field.ErrorList { return checkClaim(c) },
			ValidateUpdate: func(_ context.Context, c, old *corev1.PersistentVolumeClaim) field.ErrorList {
				return checkClaimUpdate(c, old)
			},
			Warnings: func(_ context.Context, c, _ *corev1.PersistentVolumeClaim) []string {
				return claimWarnings(c)
			},
		},
		Status: &resource.Rules[*corev1.PersistentVolumeClaim]{
			ValidateUpdate: func(_ context.Context, c, old *corev1.PersistentVolumeClaim) field.ErrorList {
				return checkClaimStatus(c, old)
			},
		},
		Columns: []table.Column{
			table.Name(),
			table.Text("Status", status["phase"]),
			table.Text("Volume", spec["volumeName"]),
			table.Text("Capacity", status["capacity"]),
			table.Text("Access Modes", status["accessModes"]),
			table.Text("StorageClass", "StorageClass of the pvc"),
			table.Text("VolumeAttributesClass", "VolumeAttributesClass of the pvc"),
			table.Age(),
			table.Wide(table.Text("VolumeMode", spec["volumeMode"])),
		},
		Row: claimRow,
	})
}

func defaultClaim(c *corev1.PersistentVolumeClaim) {
	fill(&c.Status.Phase, corev1.ClaimPending)
	fillPointer(&c.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	if r := c.Spec.DataSourceRef; r != nil && r.Namespace != nil && *r.Namespace == "" {
		r.Namespace = nil
	}
}

func prepareClaim(c *corev1.PersistentVolumeClaim) {
	c.Status.Phase = corev1.ClaimPending
	dropForeignSource(&c.Spec)
	normalizeDataSources(&c.Spec, nil)
}

// dropForeignSource removes a data source in another namespace: the feature is off.
func dropForeignSource(s *corev1.PersistentVolumeClaimSpec) {
	if r := s.DataSourceRef; r != nil && r.Namespace != nil && *r.Namespace != "" {
		s.DataSourceRef = nil
	}
}

// normalizeDataSources keeps dataSource and dataSourceRef in step. An old dataSource that names anything but a claim or
// a snapshot is dropped silently, as Kubernetes always did.
func normalizeDataSources(spec, old *corev1.PersistentVolumeClaimSpec) {
	if s := spec.DataSource; s != nil && !isDataSource(s) && (old == nil || old.DataSource == nil) && spec.DataSourceRef == nil {
		spec.DataSource = nil
	}
	switch s, r := spec.DataSource, spec.DataSourceRef; {
	case s != nil && r == nil:
		spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: s.APIGroup, Kind: s.Kind, Name: s.Name}
	case s == nil && r != nil && r.Namespace == nil:
		spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: r.APIGroup, Kind: r.Kind, Name: r.Name}
	}
}

func isDataSource(s *corev1.TypedLocalObjectReference) bool {
	group := ""
	if s.APIGroup != nil {
		group = *s.APIGroup
	}
	return group == "" && s.Kind == "PersistentVolumeClaim" || group == "snapshot.storage.k8s.io" && s.Kind == "VolumeSnapshot"
}

func claimRow(c *corev1.PersistentVolumeClaim) resource.Row {
	phase := string(c.Status.Phase)
	if c.DeletionTimestamp != nil {
		phase = "Terminating"
	}
	capacity, modes := "", ""
	if c.Spec.VolumeName != "" {
		q := c.Status.Capacity[corev1.ResourceStorage]
		capacity, modes = q.String(), modesText(c.Status.AccessModes)
	}
	class := c.Annotations[corev1.BetaStorageClassAnnotation]
	if class == "" && c.Spec.StorageClassName != nil {
		class = *c.Spec.StorageClassName
	}
	return resource.Row{Cells: []any{
		c.Name, phase, c.Spec.VolumeName, capacity, modes, class, orUnset(c.Spec.VolumeAttributesClassName),
		table.Since(c.CreationTimestamp), volumeModeText(c.Spec.VolumeMode),
	}}
}

var accessModes = []struct {
	mode  corev1.PersistentVolumeAccessMode
	short string
}{
	{corev1.ReadWriteOnce, "RWO"}, {corev1.ReadOnlyMany, "ROX"}, {corev1.ReadWriteMany, "RWX"}, {corev1.ReadWriteOncePod, "RWOP"},
}

func modesText(modes []corev1.PersistentVolumeAccessMode) string {
	var out []string
	for _, known := range accessModes {
		if slices.Contains(modes, known.mode) {
			out = append(out, known.short)
		}
	}
	return strings.Join(out, ",")
}
