// Package clusterrole aggregates ClusterRoles.
//
// Guarantees: the rules of a ClusterRole with an aggregationRule are those of all ClusterRoles that one of its
// selectors matches, in the order of their names and without duplicates. Rules that another client writes there are
// replaced.
package clusterrole

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	applyrbacv1 "k8s.io/client-go/applyconfigurations/rbac/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

const name = "clusterrole-aggregation-controller"

// Entry is this loop among the others.
var Entry = loop.Entry{Name: name, Aliases: []string{"clusterrole-aggregation"}, New: New}

type controller struct {
	kube  kubernetes.Interface
	roles *informer.Shared[*rbacv1.ClusterRole]
}

// New makes the loop.
func New(c *loop.Clients) (loop.Runner, error) {
	a := &controller{kube: c.Kube, roles: loop.Informer(c, informer.For(c.Kube.RbacV1().ClusterRoles()))}
	return &loop.Loop{
		Name: name, Clients: c, Workers: 5, Sync: a.sync,
		Watches: []loop.Watch{loop.Self(a.roles), loop.Mapped(a.roles, a.aggregators)},
	}, nil
}

// aggregators returns the roles that aggregate a role.
func (c *controller) aggregators(role *rbacv1.ClusterRole) []loop.Key {
	var keys []loop.Key
	for other := range c.roles.List() {
		if takes(other, role) {
			keys = append(keys, informer.KeyOf(other))
		}
	}
	return keys
}

// takes reports whether one role aggregates another.
func takes(aggregator, role *rbacv1.ClusterRole) bool {
	if aggregator.AggregationRule == nil || aggregator.Name == role.Name {
		return false
	}
	return slices.ContainsFunc(aggregator.AggregationRule.ClusterRoleSelectors, func(s metav1.LabelSelector) bool {
		selector, err := metav1.LabelSelectorAsSelector(&s)
		return err == nil && selector.Matches(labels.Set(role.Labels))
	})
}

// sync sets the rules of one role.
func (c *controller) sync(ctx context.Context, key loop.Key) (loop.Result, error) {
	role, ok := c.roles.Lookup(key)
	if !ok {
		return loop.Result{}, nil
	}
	if role.AggregationRule == nil || role.DeletionTimestamp != nil {
		return loop.Result{}, nil
	}
	rules := c.rulesFor(role)
	if apiequality.Semantic.DeepEqual(rules, role.Rules) {
		return loop.Result{}, nil
	}
	written, err := c.write(ctx, role, rules)
	if apierrors.IsNotFound(err) {
		return loop.Result{}, nil
	}
	if err != nil {
		return loop.Result{}, fmt.Errorf("update the rules of cluster role %s: %w", key.Name, err)
	}
	loop.Wrote(ctx, c.roles, written.ResourceVersion)
	return loop.Result{}, nil
}

// write applies rules, as Kubernetes does. An applied configuration without any would leave those that a user has
// written.
func (c *controller) write(ctx context.Context, role *rbacv1.ClusterRole, rules []rbacv1.PolicyRule) (*rbacv1.ClusterRole, error) {
	if len(rules) == 0 {
		changed := role.DeepCopy()
		changed.Rules = nil
		return c.kube.RbacV1().ClusterRoles().Update(ctx, changed, metav1.UpdateOptions{})
	}
	wanted := applyrbacv1.ClusterRole(role.Name).WithUID(role.UID)
	for i := range rules {
		r := &rules[i]
		wanted.WithRules(applyrbacv1.PolicyRule().WithAPIGroups(r.APIGroups...).WithResources(r.Resources...).WithResourceNames(r.ResourceNames...).
			WithVerbs(r.Verbs...).WithNonResourceURLs(r.NonResourceURLs...))
	}
	return c.kube.RbacV1().ClusterRoles().Apply(ctx, wanted, metav1.ApplyOptions{FieldManager: name, Force: true})
}

// rulesFor returns the rules of all roles that a role aggregates.
func (c *controller) rulesFor(role *rbacv1.ClusterRole) []rbacv1.PolicyRule {
	var sources []*rbacv1.ClusterRole
	for other := range c.roles.List() {
		if takes(role, other) {
			sources = append(sources, other)
		}
	}
	slices.SortFunc(sources, func(x, y *rbacv1.ClusterRole) int { return cmp.Compare(x.Name, y.Name) })
	var rules []rbacv1.PolicyRule
	for _, source := range sources {
		for _, rule := range source.Rules {
			if !slices.ContainsFunc(rules, func(known rbacv1.PolicyRule) bool { return apiequality.Semantic.DeepEqual(known, rule) }) {
				rules = append(rules, *rule.DeepCopy())
			}
		}
	}
	return rules
}
