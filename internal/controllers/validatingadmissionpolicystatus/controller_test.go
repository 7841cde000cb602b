package validatingadmissionpolicystatus_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/controllers/internal/looptest"
	"github.com/millrace/millrace/internal/controllers/validatingadmissionpolicystatus"
	"github.com/millrace/millrace/millracetest"
)

// about are rules for resources of one group version.
func about(group, version string, resources ...string) admissionv1.NamedRuleWithOperations {
	return admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.OperationAll},
		Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: resources}}}
}

func policy(name string, rules []admissionv1.NamedRuleWithOperations, expressions ...string) *admissionv1.ValidatingAdmissionPolicy {
	p := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{MatchConstraints: &admissionv1.MatchResources{ResourceRules: rules}}}
	for _, e := range expressions {
		p.Spec.Validations = append(p.Spec.Validations, admissionv1.Validation{Expression: e})
	}
	return p
}

// warnings are those of a policy whose generation was checked.
func warnings(t *testing.T, s *looptest.Server, name string) []admissionv1.ExpressionWarning {
	t.Helper()
	p, err := s.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if p.Status.ObservedGeneration != p.Generation {
		t.Fatalf("policy %s of generation %d has the status %+v", name, p.Generation, p.Status)
	}
	if p.Status.TypeChecking == nil {
		return nil
	}
	return p.Status.TypeChecking.ExpressionWarnings
}

// expect checks the warnings of a policy: pairs of a field and of what the warning says.
func expect(t *testing.T, s *looptest.Server, name string, want ...string) {
	t.Helper()
	got := warnings(t, s, name)
	if len(got) != len(want)/2 {
		t.Errorf("the warnings of %s are %q, want %d", name, got, len(want)/2)
		return
	}
	for i, w := range got {
		if w.FieldRef != want[2*i] || !strings.Contains(w.Warning, want[2*i+1]) {
			t.Errorf("a warning of %s is %q, want %q", name, w, want[2*i:2*i+2])
		}
	}
}

func TestExpressionsAreCheckedForTheTypesOfBuiltInKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := looptest.New(t, millracetest.API(t))
		looptest.Start(t, s.Clients(), validatingadmissionpolicystatus.Entry)
		deployments := []admissionv1.NamedRuleWithOperations{about("apps", "v1", "deployments")}
		looptest.Create(s, "validatingadmissionpolicies", "", policy("right", deployments, `object.spec.replicas > 1`, `object.metadata.name != "x" && request.userInfo.username != ""`))
		looptest.Create(s, "validatingadmissionpolicies", "", policy("wrong", deployments, `object.spec.replicas > "1"`, `object.spec.replicas > 1`, `object.spec.none == 1`))
		two := policy("two", []admissionv1.NamedRuleWithOperations{about("apps", "v1", "deployments", "replicasets", "deployments/scale")}, `object.spec.replicas == ""`)
		two.Spec.Validations[0].MessageExpression = `"has " + object.spec.paused`
		looptest.Create(s, "validatingadmissionpolicies", "", two)
		variables := policy("variables", deployments, `variables.replicas > 1`, `variables.replicas == ""`)
		variables.Spec.Variables = []admissionv1.Variable{{Name: "replicas", Expression: "object.spec.replicas"}}
		looptest.Create(s, "validatingadmissionpolicies", "", variables)
		params := policy("params", deployments, `object.metadata.name == params.data.name`, `params.data.name == 1`)
		params.Spec.ParamKind = &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
		looptest.Create(s, "validatingadmissionpolicies", "", params)
		wild := policy("wild", []admissionv1.NamedRuleWithOperations{about("*", "v1", "deployments"), about("apps", "v1", "*"), about("none.example.com", "v1", "nothings")}, `object.spec.none == 1`)
		looptest.Create(s, "validatingadmissionpolicies", "", wild)
		time.Sleep(time.Second)

		expect(t, s, "right")
		expect(t, s, "wrong",
			"spec.validations[0].expression", "apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload for '_>_' applied to '(int, string)'\n | object.spec.replicas > \"1\"\n | .....................^",
			"spec.validations[2].expression", "undefined field 'none'")
		expect(t, s, "two",
			"spec.validations[0].expression", "apps/v1, Kind=ReplicaSet: ERROR",
			"spec.validations[0].messageExpression", "apps/v1, Kind=Deployment: ERROR: <input>:1:8: found no matching overload for '_+_' applied to '(string, bool)'")
		expect(t, s, "variables", "spec.validations[1].expression", "no matching overload for '_==_' applied to '(int, string)'")
		expect(t, s, "params", "spec.validations[1].expression", "no matching overload for '_==_' applied to '(string, int)'")
		expect(t, s, "wild")

		looptest.Edit(s, "validatingadmissionpolicies", "", "wrong", func(p *admissionv1.ValidatingAdmissionPolicy) { p.Spec.Validations = p.Spec.Validations[1:2] })
		time.Sleep(time.Second)
		expect(t, s, "wrong")
	})
}

func TestExpressionsAreCheckedForTheTypesOfCustomKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := millracetest.API(t)
		s := looptest.New(t, config)
		looptest.Start(t, s.Clients(), validatingadmissionpolicystatus.Entry)
		define(t, config)
		time.Sleep(time.Second)
		looptest.Create(s, "validatingadmissionpolicies", "",
			policy("widgets", []admissionv1.NamedRuleWithOperations{about("example.com", "v1", "widgets")}, `object.spec.size > 1`, `object.spec.size.startsWith("x")`))
		time.Sleep(time.Second)
		expect(t, s, "widgets", "spec.validations[1].expression", "example.com/v1, Kind=Widget: ERROR: <input>:1:28: found no matching overload for 'startsWith' applied to 'int.(string)'")
	})
}

// define makes the kind Widget, whose size is a number.
func define(t *testing.T, config *rest.Config) {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	of := func(properties map[string]any) map[string]any {
		return map[string]any{"type": "object", "properties": properties}
	}
	version := map[string]any{"name": "v1", "served": true, "storage": true,
		"schema": map[string]any{"openAPIV3Schema": of(map[string]any{"spec": of(map[string]any{"size": map[string]any{"type": "integer"}})})}}
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "widgets.example.com"},
		"spec": map[string]any{"group": "example.com", "scope": "Namespaced", "versions": []any{version},
			"names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}}}}
	definitions := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	if _, err := definitions.Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestAPolicyIsCheckedAgainWhenTheServerDidNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := looptest.New(t, millracetest.API(t))
		failures := 3
		s.Intercept(func(r *http.Request) error {
			if strings.HasPrefix(r.URL.Path, "/openapi/v3") && failures > 0 {
				failures--
				return errors.New("the line is cut")
			}
			return nil
		}, nil)
		looptest.Start(t, s.Clients(), validatingadmissionpolicystatus.Entry)
		looptest.Create(s, "validatingadmissionpolicies", "", policy("p", []admissionv1.NamedRuleWithOperations{about("", "v1", "pods")}, `object.spec.none == 1`))
		time.Sleep(time.Minute)
		expect(t, s, "p", "spec.validations[0].expression", "/v1, Kind=Pod: ERROR")
	})
}
