package storage

import (
	"context"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// CSINodes list the CSI drivers of a node.
func CSINodes() *resource.Kind {
	return resource.Define(resource.Description[*storagev1.CSINode]{
		Group: storagev1.GroupName, Version: "v1", Kind: "CSINode", Resource: "csinodes",
		NoGeneration: true, ReturnDeleted: true,
		Rules: resource.Rules[*storagev1.CSINode]{
			Validate:       func(_ context.Context, n *storagev1.CSINode) field.ErrorList { return checkNode(n) },
			ValidateUpdate: func(_ context.Context, n, old *storagev1.CSINode) field.ErrorList { return checkNodeUpdate(n, old) },
		},
		Status: &resource.Rules[*storagev1.CSINode]{
			PrepareUpdate:  func(_ context.Context, n, old *storagev1.CSINode) { dropHealth(n, old) },
			ValidateUpdate: func(_ context.Context, n, _ *storagev1.CSINode) field.ErrorList { return checkHealth(n) },
		},
		Columns: []table.Column{table.Name(), table.Integer("Drivers", storagev1.CSINodeSpec{}.SwaggerDoc()["drivers"]), table.Age()},
		Row: func(n *storagev1.CSINode) resource.Row {
			return resource.Row{Cells: []any{n.Name, int64(len(n.Spec.Drivers)), table.Since(n.CreationTimestamp)}}
		},
	})
}

// dropHealth removes the health of storage. Kubernetes keeps it while its feature CSIVolumeHealth is on, which by default
// it is not; what an object has already may change.
func dropHealth(n, old *storagev1.CSINode) {
	if len(old.Status.StorageHealth) == 0 {
		n.Status.StorageHealth = nil
	}
}
