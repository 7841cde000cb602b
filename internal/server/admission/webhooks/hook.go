package webhooks

import (
	"slices"
	"strconv"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/millrace/millrace/internal/server/admission/expression"
	"github.com/millrace/millrace/internal/server/admission/match"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/webhook"
)

// hook is a webhook of either kind, compiled.
type hook struct {
	index         int // among all of its kind
	id            string
	name          string
	configuration string
	target        webhook.Target
	rules         match.Rules
	selectors     match.Selectors
	conditions    []expression.Named
	ignores       bool // failures
	dryRun        bool // may be called in a dry run
	reinvoke      bool
	seconds       int32
	versions      []string
}

// table is all webhooks of a kind.
type table = match.Table[*hook]

// compile makes a table of configurations, which are in the order of their names, after the webhooks that are called
// before them.
func compile(objects []resource.Object, first []*hook) *table {
	t := &table{All: slices.Clone(first), Rules: func(h *hook) *match.Rules { return &h.rules }}
	add := func(h *hook, configuration string, at int) {
		h.index, h.configuration = len(t.All), configuration
		h.id = configuration + "/" + h.name + "/" + strconv.Itoa(at)
		t.All = append(t.All, h)
	}
	for _, o := range objects {
		switch o := o.(type) {
		case *admissionv1.MutatingWebhookConfiguration:
			for i := range o.Webhooks {
				add(mutating(&o.Webhooks[i]), o.Name, i)
			}
		case *admissionv1.ValidatingWebhookConfiguration:
			for i := range o.Webhooks {
				add(validating(&o.Webhooks[i]), o.Name, i)
			}
		}
	}
	return t
}

func validating(w *admissionv1.ValidatingWebhook) *hook {
	h := &hook{
		name: w.Name, target: targetOf(&w.ClientConfig), selectors: match.Compile(w.NamespaceSelector, w.ObjectSelector),
		conditions: expression.Conditions(w.MatchConditions), ignores: w.FailurePolicy != nil && *w.FailurePolicy == admissionv1.Ignore,
		versions: w.AdmissionReviewVersions,
	}
	h.complete(w.Rules, w.MatchPolicy, w.SideEffects, w.TimeoutSeconds)
	return h
}

func mutating(w *admissionv1.MutatingWebhook) *hook {
	h := &hook{
		name: w.Name, target: targetOf(&w.ClientConfig), selectors: match.Compile(w.NamespaceSelector, w.ObjectSelector),
		conditions: expression.Conditions(w.MatchConditions), ignores: w.FailurePolicy != nil && *w.FailurePolicy == admissionv1.Ignore,
		versions: w.AdmissionReviewVersions, reinvoke: w.ReinvocationPolicy != nil && *w.ReinvocationPolicy == admissionv1.IfNeededReinvocationPolicy,
	}
	h.complete(w.Rules, w.MatchPolicy, w.SideEffects, w.TimeoutSeconds)
	return h
}

func (h *hook) complete(rules []admissionv1.RuleWithOperations, policy *admissionv1.MatchPolicyType, effects *admissionv1.SideEffectClass, seconds *int32) {
	h.rules = match.Rules{All: match.RulesOf(rules), Equivalent: policy != nil && *policy == admissionv1.Equivalent}
	h.dryRun = effects != nil && (*effects == admissionv1.SideEffectClassNone || *effects == admissionv1.SideEffectClassNoneOnDryRun)
	if seconds != nil {
		h.seconds = *seconds
	}
}

func targetOf(c *admissionv1.WebhookClientConfig) webhook.Target {
	t := webhook.Target{CABundle: c.CABundle}
	if c.URL != nil {
		t.URL = *c.URL
	}
	if s := c.Service; s != nil {
		t.Service = &webhook.Service{Namespace: s.Namespace, Name: s.Name}
		if s.Path != nil {
			t.Service.Path = *s.Path
		}
		if s.Port != nil {
			t.Service.Port = *s.Port
		}
	}
	return t
}
