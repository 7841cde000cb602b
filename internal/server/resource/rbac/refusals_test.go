package rbac

import (
	"testing"

	"github.com/millrace/millrace/internal/server/resource/resourcetest"
)

func body(kind, name, rest string) string {
	meta := `"name":"` + name + `"`
	if kind == "Role" || kind == "RoleBinding" {
		meta += `,"namespace":"n"`
	}
	return `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"` + kind + `","metadata":{` + meta + `},` + rest + `}`
}

func TestRolesAreRefusedInTheWordsOfKubernetes(t *testing.T) {
	const ref = `"roleRef":{"kind":"ClusterRole","name":"r"}`
	resourcetest.Cases(t, Kinds(), []resourcetest.Case{
		{Name: "names may be paths of the API", Body: body("ClusterRole", "system:Node_x", `"rules":[]`)},
		{Name: "but not of two parts", Body: body("ClusterRole", "a/b", `"rules":[]`), Want: []string{
			`FieldValueInvalid metadata.name: Invalid value: "a/b": may not contain '/'`}},
		{Name: "empty rule", Body: body("Role", "r", `"rules":[{}]`), Want: []string{
			"FieldValueRequired rules[0].verbs: Required value: verbs must contain at least one value",
			"FieldValueRequired rules[0].apiGroups: Required value: resource rules must supply at least one api group",
			"FieldValueRequired rules[0].resources: Required value: resource rules must supply at least one resource"}},
		{Name: "paths in a namespace", Body: body("Role", "r", `"rules":[{"verbs":["get"],"nonResourceURLs":["/x"]}]`), Want: []string{
			`FieldValueInvalid rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs`}},
		{Name: "both", Body: body("ClusterRole", "r", `"rules":[{"verbs":["get"],"nonResourceURLs":["/x"],"resources":["pods"]}]`), Want: []string{
			`FieldValueInvalid rules[0].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and non-resource URLs`}},
		{Name: "aggregation of nothing", Body: body("ClusterRole", "r", `"aggregationRule":{}`), Want: []string{
			"FieldValueRequired aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil"}},
		{Name: "role changes", Body: body("RoleBinding", "b", ref), Change: `{"roleRef":{"name":"s"}}`, Want: []string{
			`FieldValueInvalid roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"ClusterRole","Name":"s"}: cannot change roleRef`}},
		{Name: "role for everywhere", Body: body("ClusterRoleBinding", "b", `"roleRef":{"kind":"Role","name":"r"}`), Want: []string{
			`FieldValueNotSupported roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"`}},
		{Name: "account without a namespace", Body: body("ClusterRoleBinding", "b", ref+`,"subjects":[{"kind":"ServiceAccount","name":"a"}]`), Want: []string{
			"FieldValueRequired subjects[0].namespace: Required value"}},
		{Name: "kind of subject", Body: body("RoleBinding", "b", ref+`,"subjects":[{"kind":"Robot","name":"a"}]`), Want: []string{
			`FieldValueNotSupported subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"`}},
	})
}
