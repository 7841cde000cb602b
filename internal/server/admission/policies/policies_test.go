package policies_test

import (
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/admission/internal/admissiontest"
	"github.com/millrace/millrace/internal/server/resource"
)

func TestAPolicyDeniesInTheWordsOfKubernetes(t *testing.T) {
	w := newWorld(t)
	w.policy("p", expressions(`object.data.all(k, k != "bad")`))
	_, err := w.try("configmaps", admissiontest.ConfigMap("c", "bad", "1"))
	admissiontest.Refused(t, err, `configmaps "c" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p-binding' denied request: failed expression: object.data.all(k, k != "bad")`)
	if s := err.(*apierrors.StatusError).ErrStatus; s.Reason != metav1.StatusReasonInvalid || s.Code != 422 || len(s.Details.Causes) != 1 {
		t.Errorf("%+v", s)
	}
	w.Create("configmaps", admissiontest.ConfigMap("c", "good", "1"))
}

func TestExpressionsSeeTheRequestTheNamespaceAndPermissions(t *testing.T) {
	w := newWorld(t)
	w.policy("p", expressions(
		`request.userInfo.username == "alice" && request.operation == "CREATE" && request.namespace == "n" && request.kind.kind == "ConfigMap" && !request.dryRun`,
		`namespaceObject.metadata.labels.team == "a" && oldObject == null`,
		`authorizer.requestResource.check("create").allowed() && authorizer.group("").resource("pods").namespace("n").check("list").allowed()`,
		`object.metadata.name == "c" && object.kind == "ConfigMap"`))
	w.Create("configmaps", admissiontest.ConfigMap("c"))
}

func TestMessagesComeFromExpressionsAndReasonsMakeCodes(t *testing.T) {
	w := newWorld(t)
	w.policy("p", func(s *admissionv1.ValidatingAdmissionPolicySpec) {
		s.Variables = []admissionv1.Variable{{Name: "size", Expression: "object.data.size()"}, {Name: "large", Expression: "variables.size > 1"}}
		s.Validations = []admissionv1.Validation{{Expression: "!variables.large", MessageExpression: `"it has " + string(variables.size) + " entries"`,
			Message: "unused", Reason: new(metav1.StatusReasonForbidden)}}
	})
	_, err := w.try("configmaps", admissiontest.ConfigMap("c", "a", "1", "b", "2"))
	admissiontest.Refused(t, err, "denied request: it has 2 entries")
	if !apierrors.IsForbidden(err) {
		t.Errorf("%v", err)
	}
}

func TestBindingsWarnAndAudit(t *testing.T) {
	w := newWorld(t)
	w.policy("p", func(s *admissionv1.ValidatingAdmissionPolicySpec) {
		s.Validations = []admissionv1.Validation{{Expression: "false", Message: "never"}}
		s.AuditAnnotations = []admissionv1.AuditAnnotation{{Key: "who", ValueExpression: "request.userInfo.username"}, {Key: "none", ValueExpression: "null"}}
	}, func(b *admissionv1.ValidatingAdmissionPolicyBindingSpec) {
		b.ValidationActions = []admissionv1.ValidationAction{admissionv1.Warn, admissionv1.Audit}
	})
	w.Create("configmaps", admissiontest.ConfigMap("c"))
	if len(w.Told) != 1 || w.Told[0] != "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p-binding': never" {
		t.Errorf("%v", w.Told)
	}
	if w.Noted["p/who"] != "alice" || w.Noted["p/none"] != "" ||
		w.Noted["validation.policy.admission.k8s.io/validation_failure"] != `[{"message":"never","policy":"p","binding":"p-binding","expressionIndex":0,"validationActions":["Warn","Audit"]}]` {
		t.Errorf("%v", w.Noted)
	}
}

func TestParametersAreNeverOlderThanWhatWasAcknowledged(t *testing.T) {
	w := newWorld(t)
	w.policy("p", func(s *admissionv1.ValidatingAdmissionPolicySpec) {
		s.ParamKind = &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
		s.MatchConditions = []admissionv1.MatchCondition{{Name: "others", Expression: `object.metadata.name != "limit"`}}
		s.Validations = []admissionv1.Validation{{Expression: `params == null || object.data.size() <= int(params.data.most)`}}
	}, func(b *admissionv1.ValidatingAdmissionPolicyBindingSpec) {
		b.ParamRef = &admissionv1.ParamRef{Name: "limit", Namespace: "n", ParameterNotFoundAction: new(admissionv1.DenyAction)}
	})
	_, err := w.try("configmaps", admissiontest.ConfigMap("c", "a", "1"))
	admissiontest.Refused(t, err, "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction")
	w.params(t)
}

// params changes the limit to and fro, and tries each.
func (w *world) params(t *testing.T) {
	p := admissiontest.ConfigMap("limit", "most", "0")
	w.Must(w.direct(p))
	for i := range 100 {
		most := fmt.Sprint(i % 2)
		w.update("configmaps", "limit", func(o resource.Object) { o.(*corev1.ConfigMap).Data["most"] = most })
		_, err := w.try("configmaps", admissiontest.ConfigMap(fmt.Sprintf("c%d", i), "a", "1"))
		if allowed := err == nil; allowed != (most == "1") {
			t.Fatalf("with a limit of %s: %v", most, err)
		}
	}
}

// direct creates the parameter although there is none yet.
func (w *world) direct(c *corev1.ConfigMap) error {
	b := "validatingadmissionpolicybindings" + group
	w.update(b, "p-binding", func(o resource.Object) {
		o.(*admissionv1.ValidatingAdmissionPolicyBinding).Spec.ParamRef.ParameterNotFoundAction = new(admissionv1.AllowAction)
	})
	_, err := w.try("configmaps", c)
	return err
}

func TestFailurePoliciesDecideAboutErrors(t *testing.T) {
	w := newWorld(t)
	w.policy("ignored", func(s *admissionv1.ValidatingAdmissionPolicySpec) {
		s.FailurePolicy = new(admissionv1.Ignore)
		s.Validations = []admissionv1.Validation{{Expression: `object.data.none == "x"`}}
	})
	w.Create("configmaps", admissiontest.ConfigMap("c", "a", "1"))
	w.policy("failing", expressions(`object.data.none == "x"`))
	_, err := w.try("configmaps", admissiontest.ConfigMap("d", "a", "1"))
	admissiontest.Refused(t, err, `denied request: expression 'object.data.none == "x"' resulted in error: no such key: none`)
}

func TestAPolicyThatCostsTooMuchIsAnError(t *testing.T) {
	w := newWorld(t)
	w.policy("p", expressions(`object.data.all(a, object.data.all(b, object.data.all(c, object.data.all(d, a + b + c + d != "x"))))`))
	var data []string
	for i := range 100 {
		data = append(data, fmt.Sprintf("key%d", i), strings.Repeat("v", 10))
	}
	_, err := w.try("configmaps", admissiontest.ConfigMap("c", data...))
	admissiontest.Refused(t, err, "denied request: ")
	if !strings.Contains(err.Error(), "budget") && !strings.Contains(err.Error(), "cost") {
		t.Error(err)
	}
}

func TestExpressionsThatDoNotCompileAreRefused(t *testing.T) {
	w := newWorld(t)
	p := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: admissionv1.ValidatingAdmissionPolicySpec{MatchConstraints: onConfigMaps(),
		Validations: []admissionv1.Validation{{Expression: "object.x +"}, {Expression: `"text"`}, {Expression: "none == 1"}}}}
	_, err := w.try("validatingadmissionpolicies"+group, p)
	admissiontest.Refused(t, err, `spec.validations[0].expression: Invalid value: "object.x +": compilation failed: ERROR: <input>:1:11: Syntax error`)
	admissiontest.Refused(t, err, `spec.validations[1].expression: Invalid value: "\"text\"": must evaluate to bool but got string`)
	admissiontest.Refused(t, err, `undeclared reference to 'none'`)
	_, err = w.try("validatingwebhookconfigurations"+group, &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "w"},
		Webhooks: []admissionv1.ValidatingWebhook{{Name: "w.example.com", ClientConfig: admissionv1.WebhookClientConfig{URL: new("https://127.0.0.1/")}, AdmissionReviewVersions: []string{"v1"},
			SideEffects: new(admissionv1.SideEffectClassNone), MatchConditions: []admissionv1.MatchCondition{{Name: "c", Expression: "params.x"}}}}})
	admissiontest.Refused(t, err, `webhooks[0].matchConditions[0].expression: Invalid value: "params.x": compilation failed: ERROR: <input>:1:1: undeclared reference to 'params'`)
}

func TestRulesNamesAndExclusionsChoose(t *testing.T) {
	w := newWorld(t)
	w.policy("p", func(s *admissionv1.ValidatingAdmissionPolicySpec) {
		s.Validations = []admissionv1.Validation{{Expression: "false"}}
		s.MatchConstraints.ResourceRules[0].ResourceNames = []string{"only", "not"}
		out := s.MatchConstraints.ResourceRules[0]
		out.ResourceNames = []string{"not"}
		s.MatchConstraints.ExcludeResourceRules = []admissionv1.NamedRuleWithOperations{out}
	})
	w.Create("configmaps", admissiontest.ConfigMap("other"))
	w.Create("configmaps", admissiontest.ConfigMap("not"))
	_, err := w.try("configmaps", admissiontest.ConfigMap("only"))
	admissiontest.Refused(t, err, "denied request")
}

func TestMutationsApplyAndPatch(t *testing.T) {
	w := newWorld(t)
	w.mutating("a", apply(`Object{metadata: Object.metadata{labels: {"who": request.userInfo.username}}}`))
	w.mutating("b", jsonPatch(`[JSONPatch{op: "test", path: "/metadata/labels/who", value: "alice"}, JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("a/b"), value: "2"}]`),
		jsonPatch(`[JSONPatch{op: "test", path: "/metadata/labels/who", value: "nobody"}, JSONPatch{op: "remove", path: "/data"}]`))
	c := w.Create("configmaps", admissiontest.ConfigMap("c", "k", "v")).(*corev1.ConfigMap)
	if c.Labels["who"] != "alice" || c.Labels["a/b"] != "2" || c.Data["k"] != "v" {
		t.Errorf("%+v", c)
	}
}

func TestAMutationThatFailsDenies(t *testing.T) {
	w := newWorld(t)
	w.mutating("m", apply(`Object{data: Object.data{k: object.data.none}}`))
	_, err := w.try("configmaps", admissiontest.ConfigMap("c", "k", "v"))
	admissiontest.Refused(t, err, `policy 'm' with binding 'm-binding' denied request: expression 'Object{data: Object.data{k: object.data.none}}' resulted in error: no such key: none`)
}

func TestPoliciesCannotLockThemselvesIn(t *testing.T) {
	w := newWorld(t)
	w.policy("p", func(s *admissionv1.ValidatingAdmissionPolicySpec) {
		s.Validations = []admissionv1.Validation{{Expression: "false"}}
		s.MatchConstraints.ResourceRules[0].Rule = admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*"}}
	})
	w.policy("q", expressions("true"))
	_, err := w.try("configmaps", admissiontest.ConfigMap("c"))
	admissiontest.Refused(t, err, "'p' with binding")
}
