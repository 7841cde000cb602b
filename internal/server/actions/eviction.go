package actions

import (
	"context"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/apiserver"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// evict deletes a pod if the disruption budgets of its namespace allow it.
func evict(ctx context.Context, c *apiserver.ActionCall) (runtime.Object, int, error) {
	e := c.Body.(*policyv1.Eviction)
	if e.Name != c.Name {
		return nil, 0, apierrors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	options := metav1.DeleteOptions{}
	if e.DeleteOptions != nil {
		options = *e.DeleteOptions
	}
	c.Options.DryRun = c.Options.DryRun || len(options.DryRun) > 0
	cached, err := c.Storage.Get(ctx, c.Namespace, c.Name, registry.Freshness{})
	if err != nil {
		return nil, 0, err
	}
	o, err := c.Storage.Kind().Decode(ctx, cached.Value(), cached.Revision.String())
	if err != nil {
		return nil, 0, err
	}
	pod := o.(*corev1.Pod)
	if !needsNoBudget(pod) {
		if err := useDisruption(ctx, c, pod); err != nil {
			return nil, 0, err
		}
	}
	if err := markEvicted(ctx, c, pod); err != nil {
		return nil, 0, err
	}
	if options.Preconditions == nil {
		options.Preconditions = &metav1.Preconditions{UID: &pod.UID}
	}
	c.Options.Admitted = true
	if _, err := c.Storage.Delete(ctx, c.Namespace, c.Name, options, c.Options); err != nil {
		return nil, 0, err
	}
	return success()
}

// needsNoBudget reports whether a pod can be evicted without a look at the budgets: it has ended, is pending, or is being deleted.
func needsNoBudget(p *corev1.Pod) bool {
	switch p.Status.Phase {
	case corev1.PodSucceeded, corev1.PodFailed, corev1.PodPending:
		return true
	}
	return p.DeletionTimestamp != nil
}

// markEvicted adds the reason of the eviction to the pod's conditions.
func markEvicted(ctx context.Context, c *apiserver.ActionCall, pod *corev1.Pod) error {
	opt := registry.UpdateOptions{WriteOptions: c.Options, View: "eviction", Own: true}
	_, _, err := c.Storage.Update(ctx, c.Namespace, c.Name, func(_ context.Context, old resource.Object) (resource.Object, error) {
		if old.GetUID() != pod.UID {
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, c.Name)
		}
		marked := old.(*corev1.Pod).DeepCopy()
		setCondition(marked, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
			Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting"})
		return marked, nil
	}, opt)
	return err
}

// useDisruption takes one disruption from the pod's budget, or refuses.
func useDisruption(ctx context.Context, c *apiserver.ActionCall, pod *corev1.Pod) error {
	kind, ok := c.Registry.Catalogue.Kind(schema.GroupResource{Group: "policy", Resource: "poddisruptionbudgets"})
	if !ok {
		return nil
	}
	budgets, err := c.Registry.Storage(kind)
	if err != nil {
		return err
	}
	list, err := budgets.List(ctx, registry.ListQuery{Selection: registry.Select(kind.Faces[0], c.Namespace, "", nil, nil)})
	if err != nil {
		return err
	}
	var matching []*policyv1.PodDisruptionBudget
	for _, o := range list.Objects {
		decoded, err := kind.Decode(ctx, o.Value(), o.Revision.String())
		if err != nil {
			return err
		}
		b := decoded.(*policyv1.PodDisruptionBudget)
		if selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil && selector.Matches(labels.Set(pod.Labels)) {
			matching = append(matching, b)
		}
	}
	switch len(matching) {
	case 0:
		return nil
	case 1:
		return take(ctx, c, budgets, matching[0], pod)
	}
	return apierrors.NewInternalError(fmt.Errorf("This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."))
}

func take(ctx context.Context, c *apiserver.ActionCall, budgets *registry.Storage, budget *policyv1.PodDisruptionBudget, pod *corev1.Pod) error {
	if mayEvictUnhealthy(budget, pod) {
		return nil
	}
	opt := registry.UpdateOptions{WriteOptions: c.Options, View: "status", Own: true}
	_, _, err := budgets.Update(ctx, budget.Namespace, budget.Name, func(_ context.Context, old resource.Object) (resource.Object, error) {
		b := old.(*policyv1.PodDisruptionBudget).DeepCopy()
		switch {
		case b.Status.ObservedGeneration < b.Generation:
			return nil, refused(b, "The disruption budget %s is still being processed by the server.", b.Name)
		case b.Status.DisruptionsAllowed <= 0:
			return nil, refused(b, "The disruption budget %s needs %d healthy pods and has %d currently", b.Name, b.Status.DesiredHealthy, b.Status.CurrentHealthy)
		}
		b.Status.DisruptionsAllowed--
		if b.Status.DisruptedPods == nil {
			b.Status.DisruptedPods = map[string]metav1.Time{}
		}
		b.Status.DisruptedPods[pod.Name] = metav1.Now()
		return b, nil
	}, opt)
	return err
}

// mayEvictUnhealthy reports whether a pod that is not ready can be evicted without using the budget.
func mayEvictUnhealthy(b *policyv1.PodDisruptionBudget, pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return false
		}
	}
	if p := b.Spec.UnhealthyPodEvictionPolicy; p != nil && *p == policyv1.AlwaysAllow {
		return true
	}
	return b.Status.CurrentHealthy >= b.Status.DesiredHealthy && b.Status.DesiredHealthy > 0
}

func refused(b *policyv1.PodDisruptionBudget, format string, args ...any) error {
	e := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	e.ErrStatus.Code = http.StatusTooManyRequests
	e.ErrStatus.Details.Causes = append(e.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: policyv1.DisruptionBudgetCause, Message: fmt.Sprintf(format, args...)})
	return e
}
