package flowcontrol

import (
	"context"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// defaultPrecedence is the default of a schema's matchingPrecedence.
const defaultPrecedence = 1000

// FlowSchemas assign requests to priority levels.
func FlowSchemas() *resource.Kind {
	type schema = *flowcontrolv1.FlowSchema
	spec := flowcontrolv1.FlowSchemaSpec{}.SwaggerDoc()
	return resource.Define(resource.Description[schema]{
		Group: flowcontrolv1.GroupName, Version: "v1", Kind: "FlowSchema", Resource: "flowschemas",
		UnconditionalUpdate: true,
		Default: func(s schema) {
			if s.Spec.MatchingPrecedence == 0 {
				s.Spec.MatchingPrecedence = defaultPrecedence
			}
		},
		Rules: resource.Rules[schema]{
			Validate:       func(_ context.Context, s schema) field.ErrorList { return checkSchema(s) },
			ValidateUpdate: func(_ context.Context, s, _ schema) field.ErrorList { return checkSchema(s) },
		},
		Status: &resource.Rules[schema]{
			PrepareUpdate:  func(_ context.Context, s, old schema) { keepMeta(s, old) },
			ValidateUpdate: func(_ context.Context, s, _ schema) field.ErrorList { return checkConditions(schemaConditions(s)) },
		},
		Columns: []table.Column{
			table.Name(),
			table.Text("PriorityLevel", flowcontrolv1.PriorityLevelConfigurationReference{}.SwaggerDoc()["name"]),
			table.Text("MatchingPrecedence", spec["matchingPrecedence"]),
			table.Text("DistinguisherMethod", spec["distinguisherMethod"]),
			table.Age(),
			table.Text("MissingPL", "references a broken or non-existent PriorityLevelConfiguration"),
		},
		Row: schemaRow,
	})
}

func schemaRow(s *flowcontrolv1.FlowSchema) resource.Row {
	method, missing := table.None, "?"
	if m := s.Spec.DistinguisherMethod; m != nil {
		method = string(m.Type)
	}
	for _, c := range s.Status.Conditions {
		if c.Type == flowcontrolv1.FlowSchemaConditionDangling {
			missing = string(c.Status)
			break
		}
	}
	return resource.Row{Cells: []any{
		s.Name, s.Spec.PriorityLevelConfiguration.Name, int64(s.Spec.MatchingPrecedence), method, table.Since(s.CreationTimestamp), missing,
	}}
}

func schemaConditions(s *flowcontrolv1.FlowSchema) []string {
	var types []string
	for _, c := range s.Status.Conditions {
		types = append(types, string(c.Type))
	}
	return types
}
