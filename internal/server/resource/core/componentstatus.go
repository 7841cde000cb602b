package core

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// ComponentStatuses can only be read; they are not stored.
func ComponentStatuses() *resource.Kind {
	return resource.Define(resource.Description[*corev1.ComponentStatus]{
		Group: "", Version: "v1", Kind: "ComponentStatus", ListKind: "ComponentStatusList", Resource: "componentstatuses",
		ShortNames: []string{"cs"},
		NoVerbs:    []string{"create", "delete", "deletecollection", "patch", "update", "watch"},
		Deprecated: "v1 ComponentStatus is deprecated in v1.19+",
		Columns: []table.Column{
			table.Name(),
			table.Text("Status", "Status of the component conditions"),
			table.Text("Message", "Message of the component conditions"),
			table.Text("Error", "Error of the component conditions"),
		},
		Row: componentRow,
	})
}

func componentRow(cs *corev1.ComponentStatus) resource.Row {
	status, message, problem := "Unknown", "", ""
	for _, c := range cs.Conditions {
		if c.Type != corev1.ComponentHealthy {
			continue
		}
		status, message, problem = "Unhealthy", c.Message, c.Error
		if c.Status == corev1.ConditionTrue {
			status = "Healthy"
		}
		break
	}
	return resource.Row{Cells: []any{cs.Name, status, message, problem}}
}
