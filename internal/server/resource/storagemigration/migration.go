// Package storagemigration describes the kinds of the group storagemigration.k8s.io.
package storagemigration

import (
	"context"

	v1 "k8s.io/api/storagemigration/v1"
	"k8s.io/api/storagemigration/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// Kinds returns the kinds of the group.
func Kinds() []*resource.Kind { return []*resource.Kind{Migrations()} }

type migration = *v1.StorageVersionMigration

// Migrations request that all objects of a resource be stored again in the current storage version.
func Migrations() *resource.Kind {
	name := table.Name()
	name.Format = ""
	return resource.Define(resource.Description[migration]{
		Group: v1.GroupName, Version: "v1", Kind: "StorageVersionMigration", Resource: "storageversionmigrations",
		NoGeneration: true,
		Rules: resource.Rules[migration]{
			Validate:       func(_ context.Context, m migration) field.ErrorList { return check(m) },
			ValidateUpdate: func(_ context.Context, m, old migration) field.ErrorList { return checkUpdate(m, old) },
		},
		Status: &resource.Rules[migration]{
			PrepareUpdate:  func(_ context.Context, m, old migration) { metav1.ResetObjectMetaForStatus(m, old) },
			ValidateUpdate: func(_ context.Context, m, old migration) field.ErrorList { return checkStatusUpdate(m, old) },
		},
		Columns: []table.Column{name, table.Text("Resource", "GroupResource to migrate"), table.Text("Status", "Status of the migration")},
		Row: func(m migration) resource.Row {
			of := metav1.GroupResource{Group: m.Spec.Resource.Group, Resource: m.Spec.Resource.Resource}
			return resource.Row{Cells: []any{m.Name, of.String(), state(m)}}
		},
		Also: []resource.Serving[migration]{resource.Alike[migration, v1beta1.StorageVersionMigration](v1beta1.SchemeGroupVersion.WithKind("StorageVersionMigration"))},
	})
}

func state(m migration) string {
	out := "Unknown"
	for _, c := range m.Status.Conditions {
		if c.Status != metav1.ConditionTrue {
			continue
		}
		switch v1.MigrationConditionType(c.Type) {
		case v1.MigrationRunning, v1.MigrationFailed, v1.MigrationSucceeded:
			out = c.Type
		}
	}
	return out
}
