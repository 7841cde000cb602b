package admissionregistration

import (
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/millrace/millrace/internal/server/resource/resourcetest"
)

func body(kind, rest string) string {
	return `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"` + kind + `","metadata":{"name":"o"},` + rest + `}`
}

func hookBody(rest string) string {
	return body("ValidatingWebhookConfiguration", `"webhooks":[{"name":"a.b.example",`+rest+`}]`)
}

const (
	client  = `"clientConfig":{"url":"https://h.example/p"}`
	decided = `"sideEffects":"None","admissionReviewVersions":["v1"]`
)

func TestWebhooksAreRefusedInTheWordsOfKubernetes(t *testing.T) {
	resourcetest.Cases(t, Kinds(), []resourcetest.Case{
		{Name: "good", Body: hookBody(client + "," + decided)},
		{Name: "name", Body: body("MutatingWebhookConfiguration", `"webhooks":[{"name":"short",`+client+`,`+decided+`}]`), Want: []string{
			`FieldValueInvalid webhooks[0].name: Invalid value: "short": should be a domain with at least three segments separated by dots`}},
		{Name: "nothing said", Body: hookBody(`"clientConfig":{}`), Want: []string{
			"FieldValueRequired webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun",
			"FieldValueRequired webhooks[0].clientConfig: Required value: exactly one of url or service is required",
			"FieldValueRequired webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1"}},
		{Name: "plain HTTP", Body: hookBody(`"clientConfig":{"url":"http://u@h/?q#f"},` + decided), Want: []string{
			`FieldValueInvalid webhooks[0].clientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]`,
			`FieldValueInvalid webhooks[0].clientConfig.url: Invalid value: "u": user information is not permitted in the URL`,
			`FieldValueInvalid webhooks[0].clientConfig.url: Invalid value: "f": fragments are not permitted in the URL`,
			`FieldValueInvalid webhooks[0].clientConfig.url: Invalid value: "q": query parameters are not permitted in the URL`}},
		{Name: "rule", Body: hookBody(`"rules":[{"operations":["*","CREATE"],"apiGroups":[],"apiVersions":["v1"],"resources":["*","pods"]}],` + client + "," + decided), Want: []string{
			`FieldValueInvalid webhooks[0].rules[0].operations: Invalid value: ["*","CREATE"]: if '*' is present, must not specify other operations`,
			"FieldValueRequired webhooks[0].rules[0].apiGroups: Required value",
			`FieldValueInvalid webhooks[0].rules[0].resources: Invalid value: ["*","pods"]: if '*' is present, must not specify other resources without subresources`}},
		{Name: "timeout", Body: hookBody(`"timeoutSeconds":31,"admissionReviewVersions":["v9"],"sideEffects":"Some",` + client), Want: []string{
			`FieldValueNotSupported webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"`,
			"FieldValueInvalid webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
			`FieldValueInvalid webhooks[0].admissionReviewVersions: Invalid value: ["v9"]: must include at least one of v1, v1beta1`}},
		{Name: "path of a service", Body: hookBody(`"clientConfig":{"service":{"name":"s","namespace":"n","path":"a//b"}},` + decided), Want: []string{
			`FieldValueInvalid webhooks[0].clientConfig.service.path: Invalid value: "a//b": must start with a '/'`,
			`FieldValueInvalid webhooks[0].clientConfig.service.path: Invalid value: "a//b": segment[0] may not be empty`,
			`FieldValueInvalid webhooks[0].clientConfig.service.path: Invalid value: "a//b": segment[1] may not be empty`}},
	})
}

func TestPoliciesAreRefusedInTheWordsOfKubernetes(t *testing.T) {
	const match = `"matchConstraints":{"resourceRules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"]}]}`
	resourcetest.Cases(t, Kinds(), []resourcetest.Case{
		{Name: "good", Body: body("ValidatingAdmissionPolicy", `"spec":{`+match+`,"validations":[{"expression":"true"}]}`)},
		{Name: "nothing", Body: body("ValidatingAdmissionPolicy", `"spec":{}`), Want: []string{
			"FieldValueRequired spec.matchConstraints: Required value",
			"FieldValueRequired spec.validations: Required value: validations or auditAnnotations must contain at least one item",
			"FieldValueRequired spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item"}},
		{Name: "binding", Body: body("ValidatingAdmissionPolicyBinding", `"spec":{"policyName":"p","paramRef":{},"validationActions":["Deny","Warn"]}`), Want: []string{
			"FieldValueRequired spec.paramRef: Required value: one of name or selector must be specified",
			"FieldValueRequired spec.paramRef.parameterNotFoundAction: Required value",
			`FieldValueInvalid spec.validationActions: Invalid value: ["Deny","Warn"]: must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)`}},
		{Name: "mutation", Body: body("MutatingAdmissionPolicy", `"spec":{"reinvocationPolicy":"Never",`+match+`,"mutations":[{"patchType":"JSONPatch"}]}`), Want: []string{
			"FieldValueRequired spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch"}},
		{Name: "mutating binding", Body: body("MutatingAdmissionPolicyBinding", `"spec":{"policyName":""}`), Want: []string{"FieldValueRequired spec.policyName: Required value"}},
	})
}

func TestWebhookDefaultsAndGeneration(t *testing.T) {
	kind := ValidatingWebhooks()
	old := resourcetest.Made(t, Kinds(), hookBody(client+","+decided)).(*admissionv1.ValidatingWebhookConfiguration)
	w := old.Webhooks[0]
	if *w.FailurePolicy != admissionv1.Fail || *w.MatchPolicy != admissionv1.Equivalent || *w.TimeoutSeconds != 10 || w.NamespaceSelector == nil || w.ObjectSelector == nil {
		t.Errorf("defaults: %+v", w)
	}
	for change, want := range map[string]int64{`{"metadata":{"labels":{"a":"b"}}}`: 1, `{"webhooks":[{"name":"a.b.example","timeoutSeconds":5}]}`: 2} {
		now := resourcetest.Changed(t, kind.Faces[0], old, change)
		if errs := resourcetest.Update(kind, kind.Main, now, old); len(errs) > 0 || now.GetGeneration() != want {
			t.Errorf("%s: generation %d, want %d (%v)", change, now.GetGeneration(), want, errs)
		}
	}
}
