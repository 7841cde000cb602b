package policies_test

import (
	"context"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/server/admission/policies"
	"github.com/millrace/millrace/server/auth"
	"github.com/millrace/millrace/server/ownership"
	"github.com/millrace/millrace/server/registry"
	"github.com/millrace/millrace/server/resource"
	"github.com/millrace/millrace/server/resource/builtin"
	"github.com/millrace/millrace/server/store/memory"
	"github.com/millrace/millrace/server/watchcache"
)

// world is a registry whose only admission is its policies, with one namespace, "n".
type world struct {
	testing.TB
	*registry.Registry
	told  []string
	noted map[string]string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{TB: t, noted: map[string]string{}}
	s := memory.New(memory.Options{})
	current := func() *registry.Registry { return w.Registry }
	plugin := policies.New(policies.Options{Registry: current, Authorize: auth.Always(auth.Allow), Types: ownership.Types})
	kinds := builtin.Kinds()
	policies.Complete(kinds)
	cache := watchcache.New(s, watchcache.Options{Root: registry.Root})
	catalogue, err := resource.NewCatalogue(kinds...)
	w.must(err)
	w.Registry, err = registry.New(registry.Options{Store: s, Cache: cache, Catalogue: catalogue,
		Admission: []registry.Admission{plugin.Mutating(), plugin.Validating()}})
	w.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); cache.Run(ctx) }()
	t.Cleanup(func() { plugin.Close(); cancel(); <-ended; s.Close() })
	w.must(cache.WaitReady(ctx))
	w.create("namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"team": "a"}}})
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) storage(of string) *registry.Storage {
	w.Helper()
	of, group, _ := strings.Cut(of, ".")
	k, ok := w.Catalogue.Kind(schema.GroupResource{Group: group, Resource: of})
	if !ok {
		w.Fatalf("no kind %s", of)
	}
	s, err := w.Storage(k)
	w.must(err)
	return s
}

func (w *world) options() registry.WriteOptions {
	return registry.WriteOptions{Warn: func(s string) { w.told = append(w.told, s) }, Annotate: func(k, v string) { w.noted[k] = v }}
}

func (w *world) try(of string, o resource.Object) (resource.Object, error) {
	s := w.storage(of)
	s.Kind().Default(o)
	ctx := resource.WithCall(w.Context(), resource.Call{User: "alice", Groups: []string{"devs"}})
	stored, err := s.Create(ctx, o.GetNamespace(), o, w.options())
	if err != nil {
		return nil, err
	}
	return stored.Object, nil
}

func (w *world) create(of string, o resource.Object) resource.Object {
	w.Helper()
	out, err := w.try(of, o)
	w.must(err)
	return out
}

func (w *world) update(of, name string, change func(resource.Object)) {
	w.Helper()
	s := w.storage(of)
	namespace := ""
	if s.Kind().Namespaced {
		namespace = "n"
	}
	_, _, err := s.Update(w.Context(), namespace, name, func(_ context.Context, old resource.Object) (resource.Object, error) {
		o := old.DeepCopyObject().(resource.Object)
		change(o)
		return o, nil
	}, registry.UpdateOptions{})
	w.must(err)
}

func refused(t testing.TB, err error, words string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("got %v, want %s", err, words)
	}
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
	w.create("validatingadmissionpolicies"+group, p)
	b := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name + "-binding"}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}}
	for _, c := range bind {
		c(&b.Spec)
	}
	w.create("validatingadmissionpolicybindings"+group, b)
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
	w.create("mutatingadmissionpolicies"+group, &admissionv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.MutatingAdmissionPolicySpec{
		MatchConstraints: onConfigMaps(), Mutations: mutations, ReinvocationPolicy: admissionv1.NeverReinvocationPolicy}})
	w.create("mutatingadmissionpolicybindings"+group, &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name + "-binding"},
		Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name}})
}

func apply(text string) admissionv1.Mutation {
	return admissionv1.Mutation{PatchType: admissionv1.PatchTypeApplyConfiguration, ApplyConfiguration: &admissionv1.ApplyConfiguration{Expression: text}}
}

func jsonPatch(text string) admissionv1.Mutation {
	return admissionv1.Mutation{PatchType: admissionv1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{Expression: text}}
}

func configMap(name string, data ...string) *corev1.ConfigMap {
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n"}, Data: map[string]string{}}
	for i := 0; i+1 < len(data); i += 2 {
		c.Data[data[i]] = data[i+1]
	}
	return c
}
