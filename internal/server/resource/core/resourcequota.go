package core

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// ResourceQuotas limit what a namespace may use in total.
func ResourceQuotas() *resource.Kind {
	return resource.Define(resource.Description[*corev1.ResourceQuota]{
		Group: "", Version: "v1", Kind: "ResourceQuota", Resource: "resourcequotas",
		Namespaced: true, ShortNames: []string{"quota"},
		NoGeneration: true, UnconditionalUpdate: true, ReturnDeleted: true,
		Rules: resource.Rules[*corev1.ResourceQuota]{
			Validate:       func(_ context.Context, q *corev1.ResourceQuota) field.ErrorList { return checkQuota(q) },
			ValidateUpdate: func(_ context.Context, q, old *corev1.ResourceQuota) field.ErrorList { return checkQuotaUpdate(q, old) },
		},
		Status: &resource.Rules[*corev1.ResourceQuota]{
			ValidateUpdate: func(_ context.Context, q, _ *corev1.ResourceQuota) field.ErrorList { return checkQuotaStatus(q) },
		},
		Columns: []table.Column{
			table.Name(),
			table.Text("Request", "Request represents a minimum amount of cpu/memory that a container may consume."),
			table.Text("Limit", "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node."),
			table.Age(),
		},
		Row: quotaRow,
	})
}

// quotaRow shows used and granted amounts, with the limits in a separate cell.
func quotaRow(q *corev1.ResourceQuota) resource.Row {
	names := make([]string, 0, len(q.Status.Hard))
	for name := range q.Status.Hard {
		names = append(names, string(name))
	}
	slices.Sort(names)
	var requests, limits []string
	for _, name := range names {
		used, hard := q.Status.Used[corev1.ResourceName(name)], q.Status.Hard[corev1.ResourceName(name)]
		text := name + ": " + used.String() + "/" + hard.String()
		if strings.HasPrefix(name, "limits.") {
			limits = append(limits, text)
		} else {
			requests = append(requests, text)
		}
	}
	return resource.Row{Cells: []any{q.Name, strings.Join(requests, ", "), strings.Join(limits, ", "), table.Since(q.CreationTimestamp)}}
}
