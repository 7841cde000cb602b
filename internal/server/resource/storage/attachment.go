package storage

import (
	"context"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// VolumeAttachments request that a volume be attached to a node.
func VolumeAttachments() *resource.Kind {
	doc := storagev1.VolumeAttachmentSpec{}.SwaggerDoc()
	return resource.Define(resource.Description[*storagev1.VolumeAttachment]{
		Group: storagev1.GroupName, Version: "v1", Kind: "VolumeAttachment", Resource: "volumeattachments",
		NoGeneration: true, ReturnDeleted: true,
		Rules: resource.Rules[*storagev1.VolumeAttachment]{
			Validate: func(_ context.Context, a *storagev1.VolumeAttachment) field.ErrorList { return checkAttachment(a) },
			ValidateUpdate: func(_ context.Context, a, old *storagev1.VolumeAttachment) field.ErrorList {
				return checkAttachmentUpdate(a, old)
			},
		},
		Status: &resource.Rules[*storagev1.VolumeAttachment]{
			ValidateUpdate: func(_ context.Context, a, old *storagev1.VolumeAttachment) field.ErrorList {
				return checkAttachmentUpdate(a, old)
			},
		},
		Columns: []table.Column{
			table.Name(),
			{Name: "Attacher", Type: "string", Format: "name", Description: doc["attacher"]},
			table.Text("PV", storagev1.VolumeAttachmentSource{}.SwaggerDoc()["persistentVolumeName"]),
			table.Text("Node", doc["nodeName"]),
			table.Boolean("Attached", storagev1.VolumeAttachmentStatus{}.SwaggerDoc()["attached"]),
			table.Age(),
		},
		Row: func(a *storagev1.VolumeAttachment) resource.Row {
			volume := ""
			if a.Spec.Source.PersistentVolumeName != nil {
				volume = *a.Spec.Source.PersistentVolumeName
			}
			return resource.Row{Cells: []any{a.Name, a.Spec.Attacher, volume, a.Spec.NodeName, a.Status.Attached, table.Since(a.CreationTimestamp)}}
		},
	})
}
