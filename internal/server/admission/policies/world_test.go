package policies_test

import (
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/admission/concern"
	"github.com/millrace/millrace/internal/server/admission/internal/admissiontest"
	"github.com/millrace/millrace/internal/server/admission/policies"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/ownership"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// world is a registry whose only admission is its policies.
type world struct{ *admissiontest.World }

func newWorld(t testing.TB) *world { return newWorldWith(t, nil) }

// newWorldWith makes a world that has policies that are not in its API, too.
func newWorldWith(t testing.TB, static map[string]concern.Static) *world {
	t.Helper()
	return &world{admissiontest.New(t, admissiontest.Options{Complete: policies.Complete, Admission: func(current *registry.Registry) []registry.Admission {
		plugin := policies.New(policies.Options{Registry: current, Authorize: auth.Always(auth.Allow), Types: ownership.Types, Static: static})
		t.Cleanup(plugin.Close)
		return []registry.Admission{plugin.Mutating(), plugin.Validating()}
	}})}
}

func (w *world) try(of string, o resource.Object) (resource.Object, error) {
	return w.Try(of, o, w.Options())
}

func (w *world) update(of, name string, change func(resource.Object)) {
	w.Helper()
	_, err := w.Update(of, name, change)
	w.Must(err)
}

const group = ".admissionregistration.k8s.io"

func onConfigMaps() *admissionv1.MatchResources {
	return &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{"CREATE", "UPDATE"},
		Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}}}}}
}

// policy makes a validating policy about config maps, and binds it.
func (w *world) policy(name string, change func(*admissionv1.ValidatingAdmissionPolicySpec), bind ...func(*admissionv1.ValidatingAdmissionPolicyBindingSpec)) {
	w.Helper()
	p := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.ValidatingAdmissionPolicySpec{MatchConstraints: onConfigMaps()}}
	change(&p.Spec)
	w.Create("validatingadmissionpolicies"+group, p)
	b := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name + "-binding"}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}}
	for _, c := range bind {
		c(&b.Spec)
	}
	w.Create("validatingadmissionpolicybindings"+group, b)
}

func expressions(all ...string) func(*admissionv1.ValidatingAdmissionPolicySpec) {
	return func(s *admissionv1.ValidatingAdmissionPolicySpec) {
		for _, e := range all {
			s.Validations = append(s.Validations, admissionv1.Validation{Expression: e})
		}
	}
}

// mutating makes a mutating policy about config maps, and binds it.
func (w *world) mutating(name string, mutations ...admissionv1.Mutation) {
	w.Helper()
	w.Create("mutatingadmissionpolicies"+group, &admissionv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.MutatingAdmissionPolicySpec{
		MatchConstraints: onConfigMaps(), Mutations: mutations, ReinvocationPolicy: admissionv1.NeverReinvocationPolicy}})
	w.Create("mutatingadmissionpolicybindings"+group, &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name + "-binding"},
		Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name}})
}

func apply(text string) admissionv1.Mutation {
	return admissionv1.Mutation{PatchType: admissionv1.PatchTypeApplyConfiguration, ApplyConfiguration: &admissionv1.ApplyConfiguration{Expression: text}}
}

func jsonPatch(text string) admissionv1.Mutation {
	return admissionv1.Mutation{PatchType: admissionv1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{Expression: text}}
}
