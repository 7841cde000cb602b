package rbac

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-helpers/auth/rbac/validation"

	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// Escalation is the rule that nobody gives more than they have: who writes a role must have all that it allows, or may
// "escalate" it; who binds somebody to a role must have all that it allows, or may "bind" it. Changes that the server
// itself makes, for no user, are not looked at.
func (a *Authorizer) Escalation(authorize auth.Authorizer) registry.Admission {
	return registry.Admission{Name: "RBACEscalation", Validate: func(ctx context.Context, c *registry.Change) error {
		call := resource.CallFrom(ctx)
		if c.Kind.Group != rbacv1.GroupName || c.Object == nil || c.View != "" || call.User == "" {
			return nil
		}
		u := auth.User{Name: call.User, UID: call.UID, Groups: call.Groups, Extra: call.Extra}
		if u.In(auth.Masters) || c.Old != nil && onlyForDeletion(c.Object, c.Old) {
			return nil
		}
		e := escalation{a, ctx, c, u, authorize}
		var err error
		switch o := c.Object.(type) {
		case *rbacv1.ClusterRole:
			err = e.clusterRole(o)
		case *rbacv1.Role:
			err = e.role(o.Rules)
		case *rbacv1.ClusterRoleBinding:
			err = e.bind(o.RoleRef)
		case *rbacv1.RoleBinding:
			err = e.bind(o.RoleRef)
		}
		if known := apierrors.APIStatus(nil); err == nil || errors.As(err, &known) {
			return err
		}
		return apierrors.NewForbidden(c.Kind.GroupResource(), c.Object.GetName(), err)
	}}
}

// onlyForDeletion tells that nothing is changed but what lets an object be deleted.
func onlyForDeletion(o, old resource.Object) bool {
	same := o.DeepCopyObject().(resource.Object)
	same.SetOwnerReferences(old.GetOwnerReferences())
	same.SetFinalizers(old.GetFinalizers())
	same.SetManagedFields(old.GetManagedFields())
	same.SetGeneration(old.GetGeneration())
	same.SetResourceVersion(old.GetResourceVersion())
	return equality.Semantic.DeepEqual(same, old)
}

// escalation is one change, by a user.
type escalation struct {
	rbac      *Authorizer
	ctx       context.Context
	change    *registry.Change
	user      auth.User
	authorize auth.Authorizer
}

var fullAuthority = []rbacv1.PolicyRule{
	{Verbs: []string{all}, APIGroups: []string{all}, Resources: []string{all}},
	{Verbs: []string{all}, NonResourceURLs: []string{all}},
}

var errAggregation = errors.New("must have cluster-admin privileges to use the aggregationRule")

func (e *escalation) clusterRole(o *rbacv1.ClusterRole) error {
	if e.may("escalate", e.change.Kind.Resource, e.change.Name) {
		return nil
	}
	if err := e.covered(o.Rules); err != nil {
		return err
	}
	old, _ := e.change.Old.(*rbacv1.ClusterRole)
	if (aggregates(o) || old != nil && aggregates(old)) && e.covered(fullAuthority) != nil {
		return errAggregation // what is gathered can be anything
	}
	return nil
}

func aggregates(o *rbacv1.ClusterRole) bool {
	return o.AggregationRule != nil && len(o.AggregationRule.ClusterRoleSelectors) > 0
}

func (e *escalation) role(rules []rbacv1.PolicyRule) error {
	if e.may("escalate", e.change.Kind.Resource, e.change.Name) {
		return nil
	}
	return e.covered(rules)
}

func (e *escalation) bind(ref rbacv1.RoleRef) error {
	at, resource := name{"", ref.Name}, "clusterroles"
	if ref.Kind == "Role" {
		at.namespace, resource = e.change.Namespace, "roles"
	}
	if e.may("bind", resource, ref.Name) {
		return nil
	}
	s, err := e.rbac.newest(e.ctx)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	role, ok := s.roles.get(at)
	if !ok {
		return apierrors.NewNotFound(rbacv1.Resource(strings.TrimSuffix(resource, "s")), ref.Name)
	}
	return e.covered(role.rules)
}

// may asks for an explicit permission.
func (e *escalation) may(verb, of, named string) bool {
	return e.authorize.Authorize(e.ctx, auth.Attributes{
		User: e.user, Verb: verb, IsResource: true, Group: rbacv1.GroupName, Version: all, Resource: of, Namespace: e.change.Namespace, Name: named,
	}).Allowed()
}

// covered tells, with an error, what the user does not have of some rules.
func (e *escalation) covered(rules []rbacv1.PolicyRule) error {
	s, err := e.rbac.newest(e.ctx)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	own, unresolved := s.rulesOf(e.user, e.change.Namespace)
	ok, missing := validation.Covers(own, rules)
	if ok {
		return nil
	}
	text := fmt.Sprintf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s",
		e.user.Name, e.user.Groups, strings.Join(describe(missing), "\n"))
	if len(unresolved) > 0 {
		text += "; resolution errors: " + bracketed(unresolved)
	}
	return errors.New(text)
}

func bracketed(errs []error) string { return "[" + strings.Trim(aggregate(errs), "[]") + "]" }

// describe says rules in the short form of Kubernetes, each once, those for the same things together.
func describe(rules []rbacv1.PolicyRule) []string {
	var out []string
	for _, r := range compact(rules) {
		var parts []string
		add := func(name string, list []string) {
			if len(list) > 0 {
				parts = append(parts, fmt.Sprintf("%s:%q", name, list))
			}
		}
		add("APIGroups", r.APIGroups)
		add("Resources", r.Resources)
		add("NonResourceURLs", r.NonResourceURLs)
		add("ResourceNames", r.ResourceNames)
		add("Verbs", r.Verbs)
		out = append(out, "{"+strings.Join(parts, ", ")+"}")
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// compact puts the verbs for one resource together.
func compact(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	at := map[string]int{}
	for _, r := range rules {
		simple := len(r.APIGroups) == 1 && len(r.Resources) == 1 && len(r.NonResourceURLs) == 0 && len(r.ResourceNames) <= 1
		key := fmt.Sprintf("%q %q %q", r.APIGroups, r.Resources, r.ResourceNames)
		i, known := at[key]
		switch {
		case !simple:
			out = append(out, r)
		case known:
			out[i].Verbs = append(out[i].Verbs, r.Verbs...)
		default:
			at[key] = len(out)
			out = append(out, *r.DeepCopy())
		}
	}
	return out
}
