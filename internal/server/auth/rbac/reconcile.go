package rbac

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/auth/rbac/validation"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

const (
	// reconcilers is how many objects are looked at at the same time: they share the store's syncs.
	reconcilers = 32
	// conflicts is how often an object is tried that others change.
	conflicts = 3
)

// Reconcile makes what a cluster lacks of a policy: missing roles and bindings, and in those that are there missing
// rules, subjects, labels and annotations. What has been added to them stays. Objects that say that they are not to be
// updated are left alone. A binding to another role than the policy's is made anew, since a binding's role cannot
// change.
func Reconcile(ctx context.Context, r *registry.Registry, p *Policy) error {
	var all []func() error
	for _, o := range p.ClusterRoles {
		all = append(all, func() error { return reconcile(ctx, r, "clusterroles", o, completeClusterRole) })
	}
	for _, o := range p.Roles {
		all = append(all, func() error { return reconcile(ctx, r, "roles", o, completeRole) })
	}
	for _, o := range p.ClusterRoleBindings {
		all = append(all, func() error { return reconcile(ctx, r, "clusterrolebindings", o, completeClusterRoleBinding) })
	}
	for _, o := range p.RoleBindings {
		all = append(all, func() error { return reconcile(ctx, r, "rolebindings", o, completeRoleBinding) })
	}
	errs := make([]error, len(all))
	next := make(chan int)
	var wg sync.WaitGroup
	for range reconcilers {
		wg.Go(func() {
			for i := range next {
				errs[i] = all[i]()
			}
		})
	}
	for i := range all {
		next <- i
	}
	close(next)
	wg.Wait()
	return errors.Join(errs...)
}

// errOther says that an object cannot be completed, only replaced.
var errOther = errors.New("a binding to another role")

// reconcile makes or completes one object.
func reconcile[P resource.Object](ctx context.Context, r *registry.Registry, of string, want P, complete func(present, want P) error) error {
	kind, ok := r.Catalogue.Kind(rbacv1.Resource(of))
	if !ok {
		return fmt.Errorf("%s are not served", of)
	}
	s, err := r.Storage(kind)
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		err := reconcileOnce(ctx, s, want, complete, registry.Freshness{Any: try == 1}) // the cache may be behind what has been deleted or made
		if try < conflicts && (apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reconcile %s %s: %w", of, want.GetName(), err)
		}
		return nil
	}
}

func reconcileOnce[P resource.Object](ctx context.Context, s *registry.Storage, want P, complete func(present, want P) error, fresh registry.Freshness) error {
	create := func() error {
		o := want.DeepCopyObject().(P)
		s.Kind().Default(o)
		_, err := s.Create(ctx, o.GetNamespace(), o, registry.WriteOptions{})
		return err
	}
	if _, err := s.Get(ctx, want.GetNamespace(), want.GetName(), fresh); apierrors.IsNotFound(err) {
		return create()
	}
	var incomplete error
	_, _, err := s.Update(ctx, want.GetNamespace(), want.GetName(), func(_ context.Context, old resource.Object) (resource.Object, error) {
		o := old.DeepCopyObject().(P)
		if o.GetAnnotations()[rbacv1.AutoUpdateAnnotationKey] == "false" {
			return o, nil
		}
		o.SetLabels(union(want.GetLabels(), o.GetLabels()))
		o.SetAnnotations(union(want.GetAnnotations(), o.GetAnnotations()))
		incomplete = complete(o, want)
		return o, incomplete
	}, registry.UpdateOptions{})
	if !errors.Is(incomplete, errOther) {
		return err
	}
	if _, err := s.Delete(ctx, want.GetNamespace(), want.GetName(), metav1.DeleteOptions{}, registry.WriteOptions{}); err != nil {
		return err
	}
	return create()
}

// union is both maps; what is present wins.
func union(want, present map[string]string) map[string]string {
	if len(want)+len(present) == 0 {
		return nil
	}
	out := map[string]string{}
	for _, m := range []map[string]string{want, present} {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

func completeClusterRole(o, want *rbacv1.ClusterRole) error {
	switch {
	case want.AggregationRule == nil:
		o.Rules = completeRules(o.Rules, want.Rules)
	case o.AggregationRule == nil:
		o.AggregationRule, o.Rules = want.AggregationRule, nil
	default:
		for _, s := range want.AggregationRule.ClusterRoleSelectors {
			same := func(other metav1.LabelSelector) bool { return equality.Semantic.DeepEqual(s, other) }
			if !slices.ContainsFunc(o.AggregationRule.ClusterRoleSelectors, same) {
				o.AggregationRule.ClusterRoleSelectors = append(o.AggregationRule.ClusterRoleSelectors, s)
			}
		}
	}
	return nil
}

func completeRole(o, want *rbacv1.Role) error {
	o.Rules = completeRules(o.Rules, want.Rules)
	return nil
}

// completeRules adds the rules that the present ones do not cover.
func completeRules(present, want []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	_, missing := validation.Covers(present, want)
	return append(present, missing...)
}

func completeClusterRoleBinding(o, want *rbacv1.ClusterRoleBinding) error {
	o.Subjects = completeSubjects(o.Subjects, want.Subjects)
	return sameRole(o.RoleRef, want.RoleRef)
}

func completeRoleBinding(o, want *rbacv1.RoleBinding) error {
	o.Subjects = completeSubjects(o.Subjects, want.Subjects)
	return sameRole(o.RoleRef, want.RoleRef)
}

func sameRole(present, want rbacv1.RoleRef) error {
	if present != want {
		return errOther
	}
	return nil
}

func completeSubjects(present, want []rbacv1.Subject) []rbacv1.Subject {
	for _, s := range want {
		if !slices.Contains(present, s) {
			present = append(present, s)
		}
	}
	return present
}
