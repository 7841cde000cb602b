package admissionregistration

import (
	"context"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/resource"
	"github.com/millrace/millrace/resource/table"
)

// ValidatingWebhooks name servers that may refuse a change.
func ValidatingWebhooks() *resource.Kind {
	return resource.Define(resource.Description[*admissionv1.ValidatingWebhookConfiguration]{
		Group: admissionv1.GroupName, Version: "v1", Kind: "ValidatingWebhookConfiguration", Resource: "validatingwebhookconfigurations",
		Categories: extensions,
		Default: func(c *admissionv1.ValidatingWebhookConfiguration) {
			for i := range c.Webhooks {
				defaultHook(validatingHook(&c.Webhooks[i]))
			}
		},
		Rules: resource.Rules[*admissionv1.ValidatingWebhookConfiguration]{
			PrepareCreate: func(_ context.Context, c *admissionv1.ValidatingWebhookConfiguration) { c.Generation = 1 },
			PrepareUpdate: func(_ context.Context, c, old *admissionv1.ValidatingWebhookConfiguration) {
				c.Generation = counted(c.Webhooks, old.Webhooks, old.Generation)
			},
			Validate: func(_ context.Context, c *admissionv1.ValidatingWebhookConfiguration) field.ErrorList {
				return checkHooks(validatingHooks(c.Webhooks), nil)
			},
			ValidateUpdate: func(_ context.Context, c, old *admissionv1.ValidatingWebhookConfiguration) field.ErrorList {
				return checkHooks(validatingHooks(c.Webhooks), validatingHooks(old.Webhooks))
			},
		},
		Columns: []table.Column{table.Name(), table.Integer("Webhooks", "Webhooks indicates the number of webhooks registered in this configuration"), table.Age()},
		Row: func(c *admissionv1.ValidatingWebhookConfiguration) resource.Row {
			return resource.Row{Cells: []any{c.Name, int64(len(c.Webhooks)), table.Since(c.CreationTimestamp)}}
		},
	})
}

// MutatingWebhooks name servers that may alter a change.
func MutatingWebhooks() *resource.Kind {
	return resource.Define(resource.Description[*admissionv1.MutatingWebhookConfiguration]{
		Group: admissionv1.GroupName, Version: "v1", Kind: "MutatingWebhookConfiguration", Resource: "mutatingwebhookconfigurations",
		Categories: extensions,
		Default: func(c *admissionv1.MutatingWebhookConfiguration) {
			for i := range c.Webhooks {
				defaultHook(mutatingHook(&c.Webhooks[i]))
				if c.Webhooks[i].ReinvocationPolicy == nil {
					c.Webhooks[i].ReinvocationPolicy = new(admissionv1.NeverReinvocationPolicy)
				}
			}
		},
		Rules: resource.Rules[*admissionv1.MutatingWebhookConfiguration]{
			PrepareCreate: func(_ context.Context, c *admissionv1.MutatingWebhookConfiguration) { c.Generation = 1 },
			PrepareUpdate: func(_ context.Context, c, old *admissionv1.MutatingWebhookConfiguration) {
				c.Generation = counted(c.Webhooks, old.Webhooks, old.Generation)
			},
			Validate: func(_ context.Context, c *admissionv1.MutatingWebhookConfiguration) field.ErrorList {
				return checkHooks(mutatingHooks(c.Webhooks), nil)
			},
			ValidateUpdate: func(_ context.Context, c, old *admissionv1.MutatingWebhookConfiguration) field.ErrorList {
				return checkHooks(mutatingHooks(c.Webhooks), mutatingHooks(old.Webhooks))
			},
		},
		Columns: []table.Column{table.Name(), table.Integer("Webhooks", "Webhooks indicates the number of webhooks registered in this configuration"), table.Age()},
		Row: func(c *admissionv1.MutatingWebhookConfiguration) resource.Row {
			return resource.Row{Cells: []any{c.Name, int64(len(c.Webhooks)), table.Since(c.CreationTimestamp)}}
		},
	})
}

// counted is the generation after an update.
func counted[T any](now, before T, generation int64) int64 {
	if equality.Semantic.DeepEqual(now, before) {
		return generation
	}
	return generation + 1
}

// hook is what both kinds of webhook have in common. It points into the one that it stands for.
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
	reinvocation *admissionv1.ReinvocationPolicyType
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
		versions: w.AdmissionReviewVersions, conditions: w.MatchConditions, reinvocation: w.ReinvocationPolicy,
	}
}

func validatingHooks(all []admissionv1.ValidatingWebhook) []hook {
	out := make([]hook, len(all))
	for i := range all {
		out[i] = validatingHook(&all[i])
	}
	return out
}

func mutatingHooks(all []admissionv1.MutatingWebhook) []hook {
	out := make([]hook, len(all))
	for i := range all {
		out[i] = mutatingHook(&all[i])
	}
	return out
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
}

func fill[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}
