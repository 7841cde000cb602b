package node

import (
	"testing"

	"github.com/millrace/millrace/internal/server/resource/resourcetest"
)

func body(rest string) string {
	return `{"apiVersion":"node.k8s.io/v1","kind":"RuntimeClass","metadata":{"name":"r"},` + rest + `}`
}

func TestRuntimeClassesAreRefusedInTheWordsOfKubernetes(t *testing.T) {
	resourcetest.Cases(t, Kinds(), []resourcetest.Case{
		{Name: "no handler", Body: body(`"handler":""`), Want: []string{"FieldValueRequired handler: Required value"}},
		{Name: "handler changes", Body: body(`"handler":"a"`), Change: `{"handler":"b"}`, Want: []string{
			`FieldValueInvalid handler: Invalid value: "b": field is immutable`}},
		{Name: "overhead", Body: body(`"handler":"a","overhead":{"podFixed":{"cpu":"-1"}}`), Want: []string{
			`FieldValueInvalid overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0`}},
		{Name: "tolerations", Body: body(`"handler":"a","scheduling":{"tolerations":[{"key":"k","operator":"Exists","value":"v"},{"operator":"Exists"},{"operator":"Exists"}]}`), Want: []string{
			`FieldValueInvalid scheduling.tolerations[0].operator: Invalid value: "v": value must be empty when ` + "`operator` is 'Exists'",
			`FieldValueDuplicate scheduling.tolerations[2]: Duplicate value: {"Key":"","Operator":"Exists","Value":"","Effect":"","TolerationSeconds":null}`}},
	})
}
