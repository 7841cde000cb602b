package storage

import (
	"context"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/resource"
	"github.com/millrace/millrace/resource/table"
)

// CSIStorageCapacities tell how much room there is for new volumes of a class.
func CSIStorageCapacities() *resource.Kind {
	doc := storagev1.CSIStorageCapacity{}.SwaggerDoc()
	return resource.Define(resource.Description[*storagev1.CSIStorageCapacity]{
		Group: storagev1.GroupName, Version: "v1", Kind: "CSIStorageCapacity", ListKind: "CSIStorageCapacityList", Resource: "csistoragecapacities",
		Namespaced: true, ReturnDeleted: true,
		Rules: resource.Rules[*storagev1.CSIStorageCapacity]{
			Validate: func(_ context.Context, c *storagev1.CSIStorageCapacity) field.ErrorList { return checkCapacity(c) },
			ValidateUpdate: func(_ context.Context, c, old *storagev1.CSIStorageCapacity) field.ErrorList {
				return checkCapacityUpdate(c, old)
			},
		},
		Columns: []table.Column{table.Name(), table.Text("StorageClassName", doc["storageClassName"]), table.Text("Capacity", doc["capacity"])},
		Row: func(c *storagev1.CSIStorageCapacity) resource.Row {
			capacity := table.Unset
			if c.Capacity != nil {
				capacity = c.Capacity.String()
			}
			return resource.Row{Cells: []any{c.Name, c.StorageClassName, capacity}}
		},
	})
}
