package rbac

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/millrace/millrace/internal/server/auth"
)

// all stands for every verb, group, resource or path.
const all = "*"

// target is a resource as rules name it.
type target struct{ group, resource, subresource string }

// role is a role's rules, arranged by what they are asked for.
type role struct {
	rules []rbacv1.PolicyRule
	// exact are the verbs of rules that name a resource and no objects.
	exact map[target][]string
	// broad are rules for resources that have a wildcard or name objects; paths are those for paths.
	broad, paths []rbacv1.PolicyRule
}

func compile(rules []rbacv1.PolicyRule) *role {
	r := &role{rules: rules, exact: map[target][]string{}}
	for _, rule := range rules {
		switch {
		case len(rule.NonResourceURLs) > 0:
			r.paths = append(r.paths, rule)
		case len(rule.ResourceNames) > 0 || slices.Contains(rule.APIGroups, all) || slices.ContainsFunc(rule.Resources, wild):
			r.broad = append(r.broad, rule)
		default:
			r.add(rule)
		}
	}
	return r
}

func wild(resource string) bool { return strings.HasPrefix(resource, all) }

func (r *role) add(rule rbacv1.PolicyRule) {
	for _, group := range rule.APIGroups {
		for _, name := range rule.Resources {
			resource, subresource, _ := strings.Cut(name, "/")
			at := target{group, resource, subresource}
			if known, ok := r.exact[at]; ok {
				r.exact[at] = append(slices.Clip(known), rule.Verbs...)
			} else {
				r.exact[at] = rule.Verbs
			}
		}
	}
}

// allows tells whether one of the rules is for a request.
func (r *role) allows(a *auth.Attributes) bool {
	if !a.IsResource {
		return slices.ContainsFunc(r.paths, func(rule rbacv1.PolicyRule) bool {
			return has(rule.Verbs, a.Verb) && slices.ContainsFunc(rule.NonResourceURLs, func(p string) bool { return pathMatches(p, a.Path) })
		})
	}
	if verbs, ok := r.exact[target{a.Group, a.Resource, a.Subresource}]; ok && has(verbs, a.Verb) {
		return true
	}
	for i := range r.broad {
		rule := &r.broad[i]
		if has(rule.Verbs, a.Verb) && has(rule.APIGroups, a.Group) && slices.ContainsFunc(rule.Resources, func(name string) bool { return resourceMatches(name, a.Resource, a.Subresource) }) &&
			(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, a.Name)) {
			return true
		}
	}
	return false
}

func has(list []string, one string) bool {
	for _, s := range list {
		if s == all || s == one {
			return true
		}
	}
	return false
}

// resourceMatches tells whether the resource of a rule is the one that is asked for: "pods", "pods/log", "*/log" or
// "*".
func resourceMatches(rule, resource, subresource string) bool {
	if rule == all {
		return true
	}
	if subresource == "" {
		return rule == resource
	}
	head, sub, ok := strings.Cut(rule, "/")
	return ok && sub == subresource && (head == all || head == resource)
}

// pathMatches tells whether the path of a rule, which may end in a wildcard, is the one that is asked for.
func pathMatches(rule, path string) bool {
	if prefix, ok := strings.CutSuffix(rule, all); ok {
		return strings.HasPrefix(path, prefix)
	}
	return rule == path
}

// Rules are rules that do not change, ready to be asked.
type Rules struct{ role *role }

// RulesOf are the rules of one of the policy's cluster roles. A policy that does not have it gives none.
func (p *Policy) RulesOf(clusterRole string) *Rules {
	for _, r := range p.ClusterRoles {
		if r.Name == clusterRole {
			return &Rules{compile(r.Rules)}
		}
	}
	return &Rules{compile(nil)}
}

// Allow tells whether one of the rules is for a request.
func (r *Rules) Allow(a *auth.Attributes) bool { return r.role.allows(a) }
