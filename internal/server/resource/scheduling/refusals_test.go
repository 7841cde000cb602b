package scheduling

import (
	"testing"

	"github.com/millrace/millrace/internal/server/resource/resourcetest"
)

func body(name, rest string) string {
	return `{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":"` + name + `"},` + rest + `}`
}

func TestPrioritiesAreRefusedInTheWordsOfKubernetes(t *testing.T) {
	resourcetest.Cases(t, Kinds(), []resourcetest.Case{
		{Name: "the system's own", Body: body("system-node-critical", `"value":2000001000`)},
		{Name: "the system's own, wrong", Body: body("system-node-critical", `"value":1`), Want: []string{
			"FieldValueForbidden metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: value of system-node-critical PriorityClass must be 2000001000"}},
		{Name: "too high", Body: body("p", `"value":1000000001`), Want: []string{
			"FieldValueForbidden value: Forbidden: maximum allowed value of a user defined priority is 1000000000"}},
		{Name: "changes", Body: body("p", `"value":1`), Change: `{"value":2,"preemptionPolicy":"Never"}`, Want: []string{
			"FieldValueForbidden value: Forbidden: may not be changed in an update.",
			`FieldValueInvalid preemptionPolicy: Invalid value: "Never": field is immutable`}},
		{Name: "becomes the default", Body: body("p", `"value":1`), Change: `{"globalDefault":true}`},
	})
}
