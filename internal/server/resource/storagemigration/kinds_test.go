package storagemigration

import (
	"testing"

	"github.com/millrace/millrace/internal/server/resource/resourcetest"
)

func TestStoredBytesComeBackAsTheSameObject(t *testing.T) { resourcetest.Stored(t, Kinds()) }

func TestMigrationsAreRefusedInTheWordsOfKubernetes(t *testing.T) {
	body := func(of string) string {
		return `{"apiVersion":"storagemigration.k8s.io/v1","kind":"StorageVersionMigration","metadata":{"name":"m"},"spec":{"resource":{` + of + `}}}`
	}
	const condition = `"conditions":[{"type":"Succeeded","status":"True","reason":"R","message":"","lastTransitionTime":"2020-01-01T00:00:00Z"},{"type":"Failed","status":"True","reason":"R","message":"","lastTransitionTime":"2020-01-01T00:00:00Z"}]`
	resourcetest.Cases(t, Kinds(), []resourcetest.Case{
		{Name: "good", Body: body(`"resource":"pods"`)},
		{Name: "nothing", Body: body(``), Want: []string{"FieldValueRequired spec.resource.resource: Required value: resource is required to be set"}},
		{Name: "another resource", Body: body(`"resource":"pods"`), Change: `{"spec":{"resource":{"resource":"nodes"}}}`, Want: []string{
			`FieldValueInvalid spec: Invalid value: {"Resource":{"group":"","resource":"nodes"}}: field is immutable`}},
		{Name: "no version", Body: body(`"resource":"pods"`), View: "status", Change: `{"status":{"resourceVersion":"x"}}`, Want: []string{
			`FieldValueInvalid status.resourceVersion: Invalid value: "x": resource version is not well formed: x`}},
		{Name: "both", Body: body(`"resource":"pods"`), View: "status", Change: `{"status":{` + condition + `}}`, Want: []string{
			`FieldValueInvalid status.conditions: Invalid value: [{"type":"Succeeded","status":"True","lastTransitionTime":"2020-01-01T00:00:00Z","reason":"R","message":""},{"type":"Failed","status":"True","lastTransitionTime":"2020-01-01T00:00:00Z","reason":"R","message":""}]: Both success and failed conditions cannot be true at the same time`}},
	})
}
