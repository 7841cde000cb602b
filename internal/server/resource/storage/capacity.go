package storage

import (
	"context"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
)

// CSIStorageCapacities say how much capacity is left for new volumes of a class.
func CSIStorageCapacities() *resource.Kind {
	return resource.Define(resource.Description[*storagev1.CSIStorageCapacity]{
		Group: storagev1.GroupName, Version: "v1", Kind: "CSIStorageCapacity", ListKind: "CSIStorageCapacityList", Resource: "csistoragecapacities",
		Namespaced: true,
		Rules: resource.Rules[*storagev1.CSIStorageCapacity]{
			Validate: func(_ context.Context, c *storagev1.CSIStorageCapacity) field.ErrorList { return checkCapacity(c) },
			ValidateUpdate: func(_ context.Context, c, old *storagev1.CSIStorageCapacity) field.ErrorList {
				return checkCapacityUpdate(c, old)
			},
		},
	})
}
