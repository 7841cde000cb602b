package actions

import (
	"context"
	"errors"
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

// evict deletes a pod if the disruption budgets of its namespace allow it. A pod that needs no budget is deleted only
// in the state that says so: if it has changed meanwhile, as from Pending to Running, the eviction begins anew.
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
	for {
		pod, err := readPod(ctx, c)
		if err != nil {
			return nil, 0, err
		}
		again, err := evictPod(ctx, c, options, pod)
		switch {
		case err == nil:
			return success()
		case !again || ctx.Err() != nil:
			return nil, 0, err
		}
		options.Preconditions = &metav1.Preconditions{UID: &pod.UID} // another try is for the same pod
	}
}

// evictPod tries to evict the pod as it has been read. again says that the pod has changed since, so that another try
// may succeed.
func evictPod(ctx context.Context, c *apiserver.ActionCall, options metav1.DeleteOptions, pod *corev1.Pod) (again bool, err error) {
	if err := registry.CheckPreconditions(c.Storage.Kind(), options.Preconditions, pod); err != nil {
		return false, err // before anything is taken from a budget
	}
	asked := options.Preconditions != nil && options.Preconditions.ResourceVersion != nil
	exact := asked || needsNoBudget(pod)
	if !needsNoBudget(pod) {
		free, err := useDisruption(ctx, c, pod)
		if err != nil {
			return false, err
		}
		exact = exact || free
	}
	marked, err := markEvicted(ctx, c, pod, exact)
	if err != nil {
		return exact && !asked && apierrors.IsConflict(err), err
	}
	options.Preconditions = &metav1.Preconditions{UID: &pod.UID}
	if exact {
		options.Preconditions.ResourceVersion = &marked
	}
	with := c.Options
	with.Admitted = true
	_, err = c.Storage.Delete(ctx, c.Namespace, c.Name, options, with)
	return exact && !asked && apierrors.IsConflict(err), err
}

func readPod(ctx context.Context, c *apiserver.ActionCall) (*corev1.Pod, error) {
	found, err := c.Storage.Get(ctx, c.Namespace, c.Name, registry.Freshness{})
	if err != nil {
		return nil, err
	}
	o, err := c.Storage.Kind().Decode(ctx, found.Value(), found.Revision.String())
	if err != nil {
		return nil, err
	}
	return o.(*corev1.Pod), nil
}

// needsNoBudget reports whether a pod can be evicted without a look at the budgets: it has ended, is pending, or is
// being deleted.
func needsNoBudget(p *corev1.Pod) bool {
	switch p.Status.Phase {
	case corev1.PodSucceeded, corev1.PodFailed, corev1.PodPending:
		return true
	}
	return p.DeletionTimestamp != nil
}

// markEvicted adds the reason of the eviction to the pod's conditions, and returns the resource version that the pod
// then has. If exact is set, it must not have changed before.
func markEvicted(ctx context.Context, c *apiserver.ActionCall, pod *corev1.Pod, exact bool) (version string, err error) {
	opt := registry.UpdateOptions{WriteOptions: c.Options, View: "eviction", Own: true}
	stored, _, err := c.Storage.Update(ctx, c.Namespace, c.Name, func(_ context.Context, old resource.Object) (resource.Object, error) {
		switch {
		case old.GetUID() != pod.UID:
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, c.Name)
		case exact && old.GetResourceVersion() != pod.ResourceVersion:
			return nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, c.Name, errPodChanged)
		}
		marked := old.(*corev1.Pod).DeepCopy()
		setCondition(marked, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
			Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting"})
		return marked, nil
	}, opt)
	if err != nil {
		return "", err
	}
	return stored.Object.GetResourceVersion(), nil
}

var errPodChanged = errors.New("the pod has changed while it was being evicted")

// useDisruption takes one disruption from the pod's budget, or refuses. free says that the pod in this state needs none
// of its budget.
func useDisruption(ctx context.Context, c *apiserver.ActionCall, pod *corev1.Pod) (free bool, err error) {
	kind, ok := c.Registry.Catalogue.Kind(schema.GroupResource{Group: "policy", Resource: "poddisruptionbudgets"})
	if !ok {
		return false, nil
	}
	budgets, err := c.Registry.Storage(kind)
	if err != nil {
		return false, err
	}
	list, err := budgets.List(ctx, registry.ListQuery{Selection: registry.Select(kind.Faces[0], c.Namespace, "", nil, nil)})
	if err != nil {
		return false, err
	}
	var matching []*policyv1.PodDisruptionBudget
	for _, o := range list.Objects {
		decoded, err := kind.Decode(ctx, o.Value(), o.Revision.String())
		if err != nil {
			return false, err
		}
		b := decoded.(*policyv1.PodDisruptionBudget)
		if selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil && selector.Matches(labels.Set(pod.Labels)) {
			matching = append(matching, b)
		}
	}
	switch len(matching) {
	case 0:
		return false, nil
	case 1:
		if mayEvictUnhealthy(matching[0], pod) {
			return true, nil
		}
		return false, take(ctx, c, budgets, matching[0], pod)
	}
	return false, apierrors.NewInternalError(fmt.Errorf("This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."))
}

func take(ctx context.Context, c *apiserver.ActionCall, budgets *registry.Storage, budget *policyv1.PodDisruptionBudget, pod *corev1.Pod) error {
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
