package storage

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// defaultClass marks the default storage class. The second annotation is its old name.
const (
	defaultClass     = "storageclass.kubernetes.io/is-default-class"
	betaDefaultClass = "storageclass.beta.kubernetes.io/is-default-class"
)

// StorageClasses describe how volumes are provisioned.
func StorageClasses() *resource.Kind {
	doc := storagev1.StorageClass{}.SwaggerDoc()
	return resource.Define(resource.Description[*storagev1.StorageClass]{
		Group: storagev1.GroupName, Version: "v1", Kind: "StorageClass", Resource: "storageclasses",
		ShortNames: []string{"sc"}, UnconditionalUpdate: true, ReturnDeleted: true,
		Default: func(c *storagev1.StorageClass) {
			if c.ReclaimPolicy == nil {
				c.ReclaimPolicy = new(corev1.PersistentVolumeReclaimDelete)
			}
			if c.VolumeBindingMode == nil {
				c.VolumeBindingMode = new(storagev1.VolumeBindingImmediate)
			}
		},
		Rules: resource.Rules[*storagev1.StorageClass]{
			Validate: func(_ context.Context, c *storagev1.StorageClass) field.ErrorList { return checkClass(c) },
			ValidateUpdate: func(_ context.Context, c, old *storagev1.StorageClass) field.ErrorList {
				return checkClassUpdate(c, old)
			},
			Warnings: func(_ context.Context, c, _ *storagev1.StorageClass) []string { return classWarnings(c) },
		},
		Columns: []table.Column{
			table.Name(),
			table.Text("Provisioner", doc["provisioner"]),
			table.Text("ReclaimPolicy", doc["reclaimPolicy"]),
			table.Text("VolumeBindingMode", doc["volumeBindingMode"]),
			table.Text("AllowVolumeExpansion", doc["allowVolumeExpansion"]),
			table.Age(),
		},
		Row: classRow,
	})
}

func classRow(c *storagev1.StorageClass) resource.Row {
	name := c.Name
	if c.Annotations[defaultClass] == "true" || c.Annotations[betaDefaultClass] == "true" {
		name += " (default)"
	}
	policy, mode := string(corev1.PersistentVolumeReclaimDelete), string(storagev1.VolumeBindingImmediate)
	if c.ReclaimPolicy != nil {
		policy = string(*c.ReclaimPolicy)
	}
	if c.VolumeBindingMode != nil {
		mode = string(*c.VolumeBindingMode)
	}
	return resource.Row{Cells: []any{name, c.Provisioner, policy, mode, isTrue(c.AllowVolumeExpansion), table.Since(c.CreationTimestamp)}}
}

func isTrue(b *bool) bool { return b != nil && *b }
