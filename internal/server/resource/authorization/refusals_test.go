package authorization

import (
	"testing"

	"github.com/millrace/millrace/internal/server/resource/resourcetest"
)

func body(kind, meta, spec string) string {
	return `{"apiVersion":"authorization.k8s.io/v1","kind":"` + kind + `","metadata":{` + meta + `},"spec":{` + spec + `}}`
}

func TestQuestionsAreRefusedInTheWordsOfKubernetes(t *testing.T) {
	const pods = `"resourceAttributes":{"verb":"get","resource":"pods"`
	const one = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
	for _, c := range []struct {
		name, body string
		want       []string
	}{
		{"good", body("SubjectAccessReview", "", `"user":"u",`+pods+`}`), nil},
		{"nobody", body("SubjectAccessReview", "", pods+`}`), []string{
			`FieldValueInvalid spec.user: Invalid value: "": at least one of user or group must be specified`}},
		{"nothing", body("SubjectAccessReview", "", `"user":"u"`), []string{
			"FieldValueInvalid spec.resourceAttributes: Invalid value: null: " + one}},
		{"both", body("SelfSubjectAccessReview", "", pods+`},"nonResourceAttributes":{"path":"/"}`), []string{
			`FieldValueInvalid spec.nonResourceAttributes: Invalid value: {"Path":"/","Verb":""}: cannot be specified in combination with resourceAttributes`}},
		{"elsewhere", body("LocalSubjectAccessReview", `"namespace":"n"`, `"user":"u",`+pods+`,"namespace":"m"}`), []string{
			`FieldValueInvalid spec.resourceAttributes.namespace: Invalid value: "m": must match metadata.namespace`}},
		{"selector twice", body("SelfSubjectAccessReview", "", pods+`,"labelSelector":{"rawSelector":"a","requirements":[{"key":"a","operator":"Exists"}]}}`), []string{
			`FieldValueInvalid spec.resourceAttributes.labelSelector.rawSelector: Invalid value: "a": may not specified at the same time as requirements`}},
	} {
		t.Run(c.name, func(t *testing.T) { resourcetest.Asked(t, Kinds(), c.body, c.want) })
	}
}
