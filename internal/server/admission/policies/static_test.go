package policies_test

import (
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/admission/concern"
	"github.com/millrace/millrace/internal/server/admission/internal/admissiontest"
	"github.com/millrace/millrace/internal/server/resource"
)

// static is policies that are not in the API.
type static struct {
	objects []resource.Object
	changed chan struct{}
}

func (s *static) Objects() []resource.Object { return s.objects }

func (s *static) Changed() <-chan struct{} { return s.changed }

func (s *static) set(all ...resource.Object) {
	close(s.changed)
	s.objects, s.changed = all, make(chan struct{})
}

// denying is a policy that refuses config maps and bindings of policies without an exempt label.
func denying(message string) *admissionv1.ValidatingAdmissionPolicy {
	rules := onConfigMaps()
	rules.ResourceRules = append(rules.ResourceRules, admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{"*"},
		Rule:       admissionv1.Rule{APIGroups: []string{"admissionregistration.k8s.io"}, APIVersions: []string{"v1"}, Resources: []string{"validatingadmissionpolicybindings"}}}})
	return &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "s.static.k8s.io"}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: rules, Validations: []admissionv1.Validation{{Expression: "has(object.metadata.labels)", Message: message}}}}
}

func binding(name string) *admissionv1.ValidatingAdmissionPolicyBinding {
	return &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: "s.static.k8s.io", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}}
}

func TestStaticPoliciesComeFirstAndAreAskedAboutPolicies(t *testing.T) {
	s := &static{changed: make(chan struct{})}
	w := newWorldWith(t, map[string]concern.Static{"ValidatingAdmissionPolicy": s})
	w.policy("a", expressions("false"))
	s.set(denying("no"), binding("s.static.k8s.io"))
	_, err := w.try("configmaps", admissiontest.ConfigMap("c"))
	admissiontest.Refused(t, err, "'s.static.k8s.io' with binding 's.static.k8s.io' denied request: no")
	_, err = w.try("validatingadmissionpolicybindings"+group, binding("b"))
	admissiontest.Refused(t, err, "'s.static.k8s.io' with binding 's.static.k8s.io' denied request: no")
	s.set(denying("never"), binding("s.static.k8s.io"))
	_, err = w.try("configmaps", admissiontest.ConfigMap("c"))
	admissiontest.Refused(t, err, "denied request: never")
	s.set()
	_, err = w.try("configmaps", admissiontest.ConfigMap("c"))
	admissiontest.Refused(t, err, "'a' with binding 'a-binding' denied request")
}

func TestABindingOfTheAPIDoesNotBindAStaticPolicy(t *testing.T) {
	s := &static{changed: make(chan struct{})}
	w := newWorldWith(t, map[string]concern.Static{"ValidatingAdmissionPolicy": s})
	s.set(denying("no"))
	w.Create("validatingadmissionpolicybindings"+group, binding("b"))
	w.Create("configmaps", admissiontest.ConfigMap("c"))
}
