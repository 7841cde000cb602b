package storage

import (
	"context"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// VolumeAttributesClasses are named sets of mutable volume attributes.
func VolumeAttributesClasses() *resource.Kind {
	return resource.Define(resource.Description[*storagev1.VolumeAttributesClass]{
		Group: storagev1.GroupName, Version: "v1", Kind: "VolumeAttributesClass", Resource: "volumeattributesclasses",
		ShortNames: []string{"vac"}, UnconditionalUpdate: true, ReturnDeleted: true,
		Rules: resource.Rules[*storagev1.VolumeAttributesClass]{
			Validate: func(_ context.Context, c *storagev1.VolumeAttributesClass) field.ErrorList { return checkAttributes(c) },
			ValidateUpdate: func(_ context.Context, c, old *storagev1.VolumeAttributesClass) field.ErrorList {
				return checkAttributesUpdate(c, old)
			},
		},
		Columns: []table.Column{table.Name(), table.Text("DriverName", storagev1.VolumeAttributesClass{}.SwaggerDoc()["driverName"]), table.Age()},
		Row: func(c *storagev1.VolumeAttributesClass) resource.Row {
			name := c.Name
			if c.Annotations["volumeattributesclass.alpha.kubernetes.io/is-default-class"] == "true" {
				name += " (default)"
			}
			return resource.Row{Cells: []any{name, c.DriverName, table.Since(c.CreationTimestamp)}}
		},
	})
}
