package fairness

import (
	"hash/maphash"
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"github.com/millrace/millrace/internal/server/auth"
)

// Request is what FlowSchemas tell requests apart by.
type Request struct {
	User *auth.User
	// Verb is that of a resource, or the method of another path in lower case.
	Verb string
	// IsResource says that the request is for a resource; Path is what it asks for if not.
	IsResource                   bool
	Group, Resource, Subresource string
	Namespace, Path              string
}

// Detail is what dumps tell of a request.
type Detail struct {
	User, Verb, Path, Namespace, Name, APIVersion, Resource, Subresource string
}

// Schema is a FlowSchema, compiled.
type Schema struct {
	name       string
	headers    [2][]string // values of headers: the UIDs of the schema and of the level
	precedence int32
	level      *Level
	rules      []rule
	by         flowcontrolv1.FlowDistinguisherMethodType
	hash       uint64
	counts     *counts
}

// rule is one of a FlowSchema's: some subjects, and what they ask for.
type rule struct {
	anybody          bool
	users, groups    []string
	accounts         []flowcontrolv1.ServiceAccountSubject
	resources        []flowcontrolv1.ResourcePolicyRule
	nonResourcePaths []flowcontrolv1.NonResourcePolicyRule
}

func compileRule(from flowcontrolv1.PolicyRulesWithSubjects) rule {
	r := rule{resources: from.ResourceRules, nonResourcePaths: from.NonResourceRules}
	for _, s := range from.Subjects {
		switch {
		case s.User != nil:
			r.users = append(r.users, s.User.Name)
		case s.Group != nil:
			r.groups = append(r.groups, s.Group.Name)
		case s.ServiceAccount != nil:
			r.accounts = append(r.accounts, *s.ServiceAccount)
		}
	}
	both := slices.Contains(r.groups, auth.Authenticated) && slices.Contains(r.groups, auth.Unauthenticated)
	r.anybody = both || slices.Contains(r.users, flowcontrolv1.NameAll) || slices.Contains(r.groups, flowcontrolv1.NameAll)
	return r
}

func (r *rule) matches(q *Request) bool {
	return r.from(q.User) && r.what(q)
}

// from tells whether a user is one of the subjects.
func (r *rule) from(u *auth.User) bool {
	if r.anybody || slices.Contains(r.users, u.Name) {
		return true
	}
	for _, g := range r.groups {
		if slices.Contains(u.Groups, g) {
			return true
		}
	}
	if len(r.accounts) == 0 {
		return false
	}
	namespace, name, ok := auth.SplitAccount(u.Name)
	return ok && slices.ContainsFunc(r.accounts, func(a flowcontrolv1.ServiceAccountSubject) bool {
		return a.Namespace == namespace && (a.Name == name || a.Name == flowcontrolv1.NameAll)
	})
}

// what tells whether a rule is about a request.
func (r *rule) what(q *Request) bool {
	if !q.IsResource {
		return slices.ContainsFunc(r.nonResourcePaths, func(p flowcontrolv1.NonResourcePolicyRule) bool {
			return has(p.Verbs, q.Verb) && slices.ContainsFunc(p.NonResourceURLs, func(url string) bool { return pathMatches(url, q.Path) })
		})
	}
	for i := range r.resources {
		if p := &r.resources[i]; has(p.Verbs, q.Verb) && has(p.APIGroups, q.Group) && hasResource(p.Resources, q.Resource, q.Subresource) && inScope(p, q.Namespace) {
			return true
		}
	}
	return false
}

// has tells whether a list has a word or the one for all.
func has(list []string, word string) bool {
	for _, s := range list {
		if s == word || s == "*" {
			return true
		}
	}
	return false
}

func hasResource(list []string, resource, subresource string) bool {
	for _, s := range list {
		if s == "*" || subresource == "" && s == resource {
			return true
		}
		if subresource == "" {
			continue
		}
		if head, tail, ok := strings.Cut(s, "/"); ok && head == resource && tail == subresource {
			return true
		}
	}
	return false
}

func inScope(p *flowcontrolv1.ResourcePolicyRule, namespace string) bool {
	if namespace == "" {
		return p.ClusterScope
	}
	return has(p.Namespaces, namespace)
}

// pathMatches compares a path with one that may end in "/*", or is "*".
func pathMatches(pattern, path string) bool {
	if pattern == "*" || pattern == path {
		return true
	}
	prefix, ok := strings.CutSuffix(pattern, "*")
	return ok && strings.HasPrefix(path, prefix)
}

func (s *Schema) matches(q *Request) bool {
	for i := range s.rules {
		if s.rules[i].matches(q) {
			return true
		}
	}
	return false
}

var seed = maphash.MakeSeed()

// flow is the hash of the flow that a request belongs to.
func (s *Schema) flow(q *Request) uint64 {
	var by string
	switch s.by {
	case flowcontrolv1.FlowDistinguisherMethodByUserType:
		by = q.User.Name
	case flowcontrolv1.FlowDistinguisherMethodByNamespaceType:
		by = q.Namespace
	default:
		return s.hash
	}
	return s.hash*31 + maphash.String(seed, by)
}
