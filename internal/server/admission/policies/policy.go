package policies

import (
	"slices"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/millrace/millrace/internal/server/admission/match"
	"github.com/millrace/millrace/internal/server/resource"
)

// policy is a policy of either kind, with its bindings.
type policy struct {
	name     string
	param    *admissionv1.ParamKind
	ignores  bool // errors
	scope    scope
	bindings []*binding
	// Of the two one is nil. They are compiled when they are needed.
	checks  func() *checks
	changes func() *changes
}

// binding puts a policy to work.
type binding struct {
	name    string
	policy  string
	ref     *admissionv1.ParamRef
	scope   *scope // nil is everything that the policy is about
	actions []admissionv1.ValidationAction
}

// scope is what a policy or a binding is about.
type scope struct {
	rules     match.Rules
	selectors match.Selectors
}

func scopeOf(m *admissionv1.MatchResources) scope {
	if m == nil {
		return scope{}
	}
	return scope{
		rules: match.Rules{All: match.NamedRulesOf(m.ResourceRules), Exclude: match.NamedRulesOf(m.ExcludeResourceRules),
			Equivalent: m.MatchPolicy != nil && *m.MatchPolicy == admissionv1.Equivalent, Everything: true},
		selectors: match.Compile(m.NamespaceSelector, m.ObjectSelector),
	}
}

type table = match.Table[*policy]

// compiler makes tables. It carries on with the policies that have not changed since the last one.
type compiler struct {
	known map[resource.Object]*policy
}

// compile makes a table of policies and their bindings, after the policies that are asked before them. These have
// bindings of their own.
func (c *compiler) compile(objects []resource.Object, first []*policy) *table {
	t := &table{Rules: func(p *policy) *match.Rules { return &p.scope.rules }}
	known, byName := map[resource.Object]*policy{}, map[string]*policy{}
	for _, o := range objects {
		if b := bindingOf(o); b != nil {
			if p := byName[b.policy]; p != nil {
				p.bindings = append(p.bindings, b)
			}
			continue
		}
		p := c.known[o]
		if p == nil {
			p = policyOf(o)
		}
		known[o] = p
		own := *p // a table that is in use has the bindings of its time
		own.bindings = nil
		byName[own.name] = &own
		t.All = append(t.All, &own)
	}
	c.known = known
	t.All = slices.DeleteFunc(t.All, func(p *policy) bool { return len(p.bindings) == 0 })
	t.All = slices.Concat(first, t.All)
	return t
}

func policyOf(o resource.Object) *policy {
	switch o := o.(type) {
	case *admissionv1.ValidatingAdmissionPolicy:
		return &policy{name: o.Name, param: o.Spec.ParamKind, ignores: ignores(o.Spec.FailurePolicy), scope: scopeOf(o.Spec.MatchConstraints),
			checks: sync.OnceValue(func() *checks { return compileChecks(o) })}
	case *admissionv1.MutatingAdmissionPolicy:
		return &policy{name: o.Name, param: o.Spec.ParamKind, ignores: ignores(o.Spec.FailurePolicy), scope: scopeOf(o.Spec.MatchConstraints),
			changes: sync.OnceValue(func() *changes { return compileChanges(o) })}
	}
	return nil
}

func ignores(p *admissionv1.FailurePolicyType) bool { return p != nil && *p == admissionv1.Ignore }

func bindingOf(o resource.Object) *binding {
	var b *binding
	var m *admissionv1.MatchResources
	switch o := o.(type) {
	case *admissionv1.ValidatingAdmissionPolicyBinding:
		b, m = &binding{name: o.Name, policy: o.Spec.PolicyName, ref: o.Spec.ParamRef, actions: o.Spec.ValidationActions}, o.Spec.MatchResources
	case *admissionv1.MutatingAdmissionPolicyBinding:
		b, m = &binding{name: o.Name, policy: o.Spec.PolicyName, ref: o.Spec.ParamRef}, o.Spec.MatchResources
	default:
		return nil
	}
	if m != nil {
		s := scopeOf(m)
		b.scope = &s
	}
	return b
}
