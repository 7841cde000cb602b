// Package match finds the webhooks and policies that a request concerns.
//
// What does not depend on the object of a request (rules, versions, operations, scope) is worked out once for each kind
// of request and kept in a Table, so that what never matches costs nothing. Selectors are looked at for each request.
package match

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Place is what of a request rules look at, but for names.
type Place struct {
	Resource    schema.GroupVersionResource
	Subresource string
	Operation   admissionv1.OperationType
	// Namespaced says that the object is in a namespace. A namespace is not in itself.
	Namespaced bool
}

// Rule is a rule, for some names or for all.
type Rule struct {
	admissionv1.RuleWithOperations
	Names []string
}

// RulesOf are the rules of webhooks.
func RulesOf(all []admissionv1.RuleWithOperations) []Rule {
	out := make([]Rule, len(all))
	for i, r := range all {
		out[i] = Rule{RuleWithOperations: r}
	}
	return out
}

// NamedRulesOf are the rules of policies.
func NamedRulesOf(all []admissionv1.NamedRuleWithOperations) []Rule {
	out := make([]Rule, len(all))
	for i, r := range all {
		out[i] = Rule{r.RuleWithOperations, r.ResourceNames}
	}
	return out
}

// covers tells whether a rule is about a place, if that were served as a resource.
func (r *Rule) covers(p *Place, as schema.GroupVersionResource) bool {
	return r.inScope(p) &&
		(slices.Contains(r.Operations, admissionv1.OperationAll) || slices.Contains(r.Operations, p.Operation)) &&
		has(r.APIGroups, as.Group) && has(r.APIVersions, as.Version) && r.names(as.Resource, p.Subresource)
}

func (r *Rule) inScope(p *Place) bool {
	if r.Scope == nil {
		return true
	}
	switch *r.Scope {
	case admissionv1.NamespacedScope:
		return p.Namespaced
	case admissionv1.ClusterScope:
		return !p.Namespaced
	}
	return *r.Scope == admissionv1.AllScopes
}

func has(all []string, s string) bool { return slices.Contains(all, "*") || slices.Contains(all, s) }

func (r *Rule) names(resource, subresource string) bool {
	for _, text := range r.Resources {
		of, sub, _ := strings.Cut(text, "/")
		if (of == "*" || of == resource) && (sub == "*" || sub == subresource) {
			return true
		}
	}
	return false
}

// Rules are those of a webhook or of a policy.
type Rules struct {
	All []Rule
	// Exclude are taken out of what the others cover.
	Exclude []Rule
	// Equivalent lets a rule for one version cover the others.
	Equivalent bool
	// Everything says that no rules are all rules.
	Everything bool
}

// Covered is how some rules cover a place.
type Covered struct {
	// As is the resource by which the rules know it.
	As schema.GroupVersionResource
	// Names are what the object must be named; nil is any name.
	Names []string
}

// Cover finds out whether the rules cover a place, whatever the name. Others are the resources by which the same
// objects are served besides. The first answer whose names fit holds. Excluded are names that are taken out again; nil
// among them takes out everything.
func (r *Rules) Cover(p *Place, others []schema.GroupVersionResource) (found, excluded []Covered) {
	excluded = cover(r.Exclude, r.Equivalent, p, others)
	if slices.ContainsFunc(excluded, func(c Covered) bool { return c.Names == nil }) {
		return nil, excluded
	}
	if len(r.All) == 0 && r.Everything {
		return []Covered{{As: p.Resource}}, excluded
	}
	return cover(r.All, r.Equivalent, p, others), excluded
}

func cover(rules []Rule, equivalent bool, p *Place, others []schema.GroupVersionResource) (out []Covered) {
	add := func(r *Rule, as schema.GroupVersionResource) {
		c := Covered{As: as}
		if len(r.Names) > 0 {
			c.Names = r.Names
		}
		out = append(out, c)
	}
	for i := range rules {
		if rules[i].covers(p, p.Resource) {
			add(&rules[i], p.Resource)
		}
	}
	if !equivalent {
		return out
	}
	for i := range rules {
		for _, other := range others {
			if other != p.Resource && rules[i].covers(p, other) {
				add(&rules[i], other)
			}
		}
	}
	return out
}

// Named finds the first of some answers that is about a name.
func Named(all []Covered, name string) (Covered, bool) {
	for _, c := range all {
		if c.Names == nil || slices.Contains(c.Names, name) {
			return c, true
		}
	}
	return Covered{}, false
}
