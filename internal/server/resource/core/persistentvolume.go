package core

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// PersistentVolumes are pieces of storage that outlive the pods that use them.
func PersistentVolumes() *resource.Kind {
	spec, status := corev1.PersistentVolumeSpec{}.SwaggerDoc(), corev1.PersistentVolumeStatus{}.SwaggerDoc()
	return resource.Define(resource.Description[*corev1.PersistentVolume]{
		Group: "", Version: "v1", Kind: "PersistentVolume", Resource: "persistentvolumes",
		ValidateMetaTwice: true,
		ShortNames:        []string{"pv"},
		NoGeneration:      true, UnconditionalUpdate: true, ReturnDeleted: true,
		Default: defaultVolume,
		Rules: resource.Rules[*corev1.PersistentVolume]{
			PrepareCreate: func(_ context.Context, pv *corev1.PersistentVolume) {
				now := metav1.Now()
				pv.Status = corev1.PersistentVolumeStatus{Phase: corev1.VolumePending, LastPhaseTransitionTime: &now}
			},
			Validate: func(_ context.Context, pv *corev1.PersistentVolume) field.ErrorList { return checkVolume(pv) },
			ValidateUpdate: func(_ context.Context, pv, old *corev1.PersistentVolume) field.ErrorList {
				return checkVolumeUpdate(pv, old)
			},
			Warnings: func(_ context.Context, pv, _ *corev1.PersistentVolume) []string { return volumeWarnings(pv) },
		},
		Status: &resource.Rules[*corev1.PersistentVolume]{
			PrepareUpdate: noteTransition,
			ValidateUpdate: func(_ context.Context, pv, old *corev1.PersistentVolume) field.ErrorList {
				if pv.ResourceVersion == "" {
					return field.ErrorList{field.Required(field.NewPath("resourceVersion"), "")}
				}
				return nil
			},
		},
		Columns: []table.Column{
			table.Name(),
			table.Text("Capacity", spec["capacity"]),
			table.Text("Access Modes", spec["accessModes"]),
			table.Text("Reclaim Policy", spec["persistentVolumeReclaimPolicy"]),
			table.Text("Status", status["phase"]),
			table.Text("Claim", spec["claimRef"]),
			table.Text("StorageClass", "StorageClass of the pv"),
			table.Text("VolumeAttributesClass", "VolumeAttributesClass of the pv"),
			table.Text("Reason", status["reason"]),
			table.Age(),
			table.Wide(table.Text("VolumeMode", spec["volumeMode"])),
		},
		Row: volumeRow,
	})
}

func defaultVolume(pv *corev1.PersistentVolume) {
	if pv.Status.Phase == "" {
		pv.Status.Phase = corev1.VolumePending
	}
	if pv.Spec.PersistentVolumeReclaimPolicy == "" {
		pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	}
	if pv.Spec.VolumeMode == nil {
		pv.Spec.VolumeMode = new(corev1.PersistentVolumeFilesystem)
	}
	defaultVolumeSource(&pv.Spec.PersistentVolumeSource)
}

func defaultVolumeSource(s *corev1.PersistentVolumeSource) {
	if h := s.HostPath; h != nil && h.Type == nil {
		h.Type = new(corev1.HostPathUnset)
	}
	if r := s.RBD; r != nil {
		fill(&r.RBDPool, "rbd")
		fill(&r.RadosUser, "admin")
		fill(&r.Keyring, "/etc/ceph/keyring")
	}
	if i := s.ISCSI; i != nil {
		fill(&i.ISCSIInterface, "default")
	}
	if a := s.AzureDisk; a != nil {
		fillPointer(&a.CachingMode, corev1.AzureDataDiskCachingReadWrite)
		fillPointer(&a.Kind, corev1.AzureSharedBlobDisk)
		fillPointer(&a.FSType, "ext4")
		fillPointer(&a.ReadOnly, false)
	}
	if s := s.ScaleIO; s != nil {
		fill(&s.StorageMode, "ThinProvisioned")
		fill(&s.FSType, "xfs")
	}
}

// fill sets a value that is empty.
func fill[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}

func fillPointer[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}

// noteTransition sets the time of the last change of phase.
func noteTransition(_ context.Context, pv, old *corev1.PersistentVolume) {
	switch now := metav1.Now(); {
	case pv.Status.Phase == old.Status.Phase:
		if pv.Status.LastPhaseTransitionTime == nil {
			pv.Status.LastPhaseTransitionTime = old.Status.LastPhaseTransitionTime
		}
	case pv.Status.LastPhaseTransitionTime == nil || pv.Status.LastPhaseTransitionTime.Equal(old.Status.LastPhaseTransitionTime):
		pv.Status.LastPhaseTransitionTime = &now
	}
}

func volumeRow(pv *corev1.PersistentVolume) resource.Row {
	claim := ""
	if r := pv.Spec.ClaimRef; r != nil {
		claim = r.Namespace + "/" + r.Name
	}
	phase := string(pv.Status.Phase)
	if pv.DeletionTimestamp != nil {
		phase = "Terminating"
	}
	capacity := pv.Spec.Capacity[corev1.ResourceStorage]
	class := pv.Spec.StorageClassName
	if a, there := pv.Annotations[corev1.BetaStorageClassAnnotation]; there {
		class = a
	}
	return resource.Row{Cells: []any{
		pv.Name, capacity.String(), modesText(pv.Spec.AccessModes), string(pv.Spec.PersistentVolumeReclaimPolicy), phase, claim,
		class, orUnset(pv.Spec.VolumeAttributesClassName), pv.Status.Reason, table.Since(pv.CreationTimestamp), volumeModeText(pv.Spec.VolumeMode),
	}}
}

func orUnset(s *string) string {
	if s == nil {
		return table.Unset
	}
	return *s
}

func volumeModeText(m *corev1.PersistentVolumeMode) string {
	if m == nil {
		return table.Unset
	}
	return string(*m)
}
