// Package coordination describes the kinds of the group coordination.k8s.io.
package coordination

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// Kinds returns the kinds of the group.
func Kinds() []*resource.Kind { return []*resource.Kind{Leases()} }

// Leases say who holds a lock, and until when.
func Leases() *resource.Kind {
	return resource.Define(resource.Description[*coordinationv1.Lease]{
		Group: coordinationv1.GroupName, Version: "v1", Kind: "Lease", Resource: "leases",
		Namespaced: true, NoGeneration: true, CreateOnUpdate: true,
		Rules: resource.Rules[*coordinationv1.Lease]{
			PrepareCreate:  func(_ context.Context, l *coordinationv1.Lease) { dropStrategy(l) },
			PrepareUpdate:  prepareUpdate,
			Validate:       func(_ context.Context, l *coordinationv1.Lease) field.ErrorList { return checkSpec(&l.Spec) },
			ValidateUpdate: func(_ context.Context, l, _ *coordinationv1.Lease) field.ErrorList { return checkSpec(&l.Spec) },
		},
		Columns: []table.Column{table.Name(), table.Text("Holder", coordinationv1.LeaseSpec{}.SwaggerDoc()["holderIdentity"]), table.Age()},
		Row: func(l *coordinationv1.Lease) resource.Row {
			holder := ""
			if l.Spec.HolderIdentity != nil {
				holder = *l.Spec.HolderIdentity
			}
			return resource.Row{Cells: []any{l.Name, holder, table.Since(l.CreationTimestamp)}}
		},
	})
}

// dropStrategy removes the fields of coordinated leader election, a feature that is off by default in Kubernetes.
func dropStrategy(l *coordinationv1.Lease) { l.Spec.Strategy, l.Spec.PreferredHolder = nil, nil }

func prepareUpdate(_ context.Context, l, old *coordinationv1.Lease) {
	if old.Spec.Strategy == nil && old.Spec.PreferredHolder == nil {
		dropStrategy(l)
	}
}

func checkSpec(s *coordinationv1.LeaseSpec) field.ErrorList {
	var errs field.ErrorList
	if n := s.LeaseDurationSeconds; n != nil && *n <= 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "leaseDurationSeconds"), *n, "must be greater than 0"))
	}
	if n := s.LeaseTransitions; n != nil && *n < 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "leaseTransitions"), *n, "must be greater than or equal to 0"))
	}
	return errs
}
