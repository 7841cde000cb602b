package admissionregistration

import (
	"context"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// ValidatingWebhooks configure webhooks that may refuse a change.
func ValidatingWebhooks() *resource.Kind {
	type configuration = *admissionv1.ValidatingWebhookConfiguration
	return webhooks(resource.Description[configuration]{Kind: "ValidatingWebhookConfiguration", Resource: "validatingwebhookconfigurations"},
		func(c configuration) []admissionv1.ValidatingWebhook { return c.Webhooks }, validatingHook)
}

// MutatingWebhooks configure webhooks that may modify an object.
func MutatingWebhooks() *resource.Kind {
	type configuration = *admissionv1.MutatingWebhookConfiguration
	return webhooks(resource.Description[configuration]{Kind: "MutatingWebhookConfiguration", Resource: "mutatingwebhookconfigurations"},
		func(c configuration) []admissionv1.MutatingWebhook { return c.Webhooks }, mutatingHook)
}

// webhooks completes a description with what both kinds have in common.
func webhooks[P resource.Object, W any](d resource.Description[P], all func(P) []W, of func(*W) hook) *resource.Kind {
	hooks := func(c P) []hook {
		out := make([]hook, len(all(c)))
		for i := range out {
			out[i] = of(&all(c)[i])
		}
		return out
	}
	d.Group, d.Version, d.Categories, d.Name = admissionv1.GroupName, "v1", extensions, name
	d.Default = func(c P) {
		for _, h := range hooks(c) {
			defaultHook(h)
		}
	}
	d.Rules = resource.Rules[P]{
		PrepareCreate: func(_ context.Context, c P) { c.SetGeneration(1) },
		PrepareUpdate: func(_ context.Context, c, old P) { c.SetGeneration(counted(all(c), all(old), old.GetGeneration())) },
		Validate:      func(_ context.Context, c P) field.ErrorList { return checkHooks(hooks(c), nil) },
		ValidateUpdate: func(_ context.Context, c, old P) field.ErrorList {
			return checkHooks(hooks(c), hooks(old))
		},
	}
	d.Columns = []table.Column{table.Name(), table.Integer("Webhooks", "Webhooks indicates the number of webhooks registered in this configuration"), table.Age()}
	d.Row = func(c P) resource.Row {
		return resource.Row{Cells: []any{c.GetName(), int64(len(all(c))), table.Since(c.GetCreationTimestamp())}}
	}
	return resource.Define(d)
}

// counted returns the generation after an update.
func counted[T any](now, before T, generation int64) int64 {
	if equality.Semantic.DeepEqual(now, before) {
		return generation
	}
	return generation + 1
}

// hook is what both kinds of webhook have in common. Its pointers refer to the webhook itself.
type hook struct {
	name         *string
	client       *admissionv1.WebhookClientConfig
	rules        []admissionv1.RuleWithOperations
	failure      **admissionv1.FailurePolicyType
	match        **admissionv1.MatchPolicyType
	namespaces   **metav1.LabelSelector
	objects      **metav1.LabelSelector
	sideEffects  *admissionv1.SideEffectClass
	timeout      **int32
	versions     []string
	conditions   []admissionv1.MatchCondition
	reinvocation **admissionv1.ReinvocationPolicyType // nil if it cannot be reinvoked
}

func validatingHook(w *admissionv1.ValidatingWebhook) hook {
	return hook{
		name: &w.Name, client: &w.ClientConfig, rules: w.Rules, failure: &w.FailurePolicy, match: &w.MatchPolicy,
		namespaces: &w.NamespaceSelector, objects: &w.ObjectSelector, sideEffects: w.SideEffects, timeout: &w.TimeoutSeconds,
		versions: w.AdmissionReviewVersions, conditions: w.MatchConditions,
	}
}

func mutatingHook(w *admissionv1.MutatingWebhook) hook {
	return hook{
		name: &w.Name, client: &w.ClientConfig, rules: w.Rules, failure: &w.FailurePolicy, match: &w.MatchPolicy,
		namespaces: &w.NamespaceSelector, objects: &w.ObjectSelector, sideEffects: w.SideEffects, timeout: &w.TimeoutSeconds,
		versions: w.AdmissionReviewVersions, conditions: w.MatchConditions, reinvocation: &w.ReinvocationPolicy,
	}
}

const (
	hookTimeout = 10
	hookPort    = 443
)

func defaultHook(h hook) {
	fill(h.failure, admissionv1.Fail)
	fill(h.match, admissionv1.Equivalent)
	fill(h.namespaces, metav1.LabelSelector{})
	fill(h.objects, metav1.LabelSelector{})
	fill(h.timeout, hookTimeout)
	if s := h.client.Service; s != nil {
		fill(&s.Port, hookPort)
	}
	for i := range h.rules {
		fill(&h.rules[i].Scope, admissionv1.AllScopes)
	}
	if h.reinvocation != nil {
		fill(h.reinvocation, admissionv1.NeverReinvocationPolicy)
	}
}

func fill[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}
