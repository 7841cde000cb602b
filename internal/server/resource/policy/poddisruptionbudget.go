// Package policy describes the kinds of the group policy.
package policy

import (
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/check"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// Kinds returns the kinds of the group.
func Kinds() []*resource.Kind { return []*resource.Kind{PodDisruptionBudgets()} }

// PodDisruptionBudgets limit how many pods of a selection may be evicted at a time.
func PodDisruptionBudgets() *resource.Kind {
	return resource.Define(resource.Description[*policyv1.PodDisruptionBudget]{
		Group: policyv1.GroupName, Version: "v1", Kind: "PodDisruptionBudget", Resource: "poddisruptionbudgets",
		Namespaced: true, ShortNames: []string{"pdb"},
		Name: check.PathSegment, FreeFinalizers: true,
		Rules:   budgetRules,
		Status:  &budgetStatusRules,
		Columns: budgetColumns,
		Row:     budgetRow,
	})
}

var budgetColumns = []table.Column{
	table.Name(),
	table.Text("Min Available", "The minimum number of pods that must be available."),
	table.Text("Max Unavailable", "The maximum number of pods that may be unavailable."),
	table.Integer("Allowed Disruptions", "Calculated number of pods that may be disrupted at this time."),
	table.Age(),
}

func budgetRow(b *policyv1.PodDisruptionBudget) resource.Row {
	return resource.Row{Cells: []any{
		b.Name, amount(b.Spec.MinAvailable), amount(b.Spec.MaxUnavailable), int64(b.Status.DisruptionsAllowed),
		table.Since(b.CreationTimestamp),
	}}
}

func amount(n *intstr.IntOrString) string {
	if n == nil {
		return "N/A"
	}
	return n.String()
}
