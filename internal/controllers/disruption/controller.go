package disruption

import (
	"context"
	"fmt"
	"maps"
	"math"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
)

const name = "disruption-controller"

// Entry is this loop among the others.
var Entry = loop.Entry{Name: name, Aliases: []string{"disruption"}, Source: "controllermanager", New: New}

// deletionTimeout is how long a granted eviction counts if its pod is not deleted.
const deletionTimeout = 2 * time.Minute

type controller struct {
	kube      kubernetes.Interface
	dynamic   dynamic.Interface
	discovery discovery.DiscoveryInterface
	recorder  loop.Recorder
	now       func() time.Time
	budgets   *informer.Shared[*policyv1.PodDisruptionBudget]
	pods      *informer.Shared[*podview.Pod]
	sets      *informer.Shared[*appsv1.ReplicaSet]
}

// New makes the loop.
func New(c *loop.Clients) (loop.Runner, error) {
	d := &controller{
		kube: c.Kube, dynamic: c.Dynamic, discovery: c.Discovery, recorder: c.Recorder, now: c.Now,
		budgets: loop.Informer(c, informer.For(c.Kube.PolicyV1().PodDisruptionBudgets(""))),
		pods:    podview.Informer(c),
		sets:    loop.Informer(c, informer.For(c.Kube.AppsV1().ReplicaSets(""))),
	}
	return &loop.Loop{
		Name: name, Clients: c, Workers: 2, Sync: d.sync,
		Watches: []loop.Watch{loop.Self(d.budgets), loop.Changes(d.pods, d.concerned), loop.Reads(d.sets)},
	}, nil
}

// concerned returns the budgets that select, or selected, a pod.
func (co *controller) concerned(before, after *podview.Pod) []loop.Key {
	if before != nil && after != nil && before.Ready == after.Ready && (before.DeletionTimestamp == nil) == (after.DeletionTimestamp == nil) &&
		before.Phase == after.Phase && before.ControllerUID() == after.ControllerUID() && maps.Equal(before.Labels, after.Labels) {
		return nil
	}
	var keys []loop.Key
	for _, pod := range []*podview.Pod{before, after} {
		if pod == nil {
			continue
		}
		for b := range co.budgets.ListNamespace(pod.Namespace) {
			if s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil && s.Matches(labels.Set(pod.Labels)) {
				keys = append(keys, informer.KeyOf(b))
			}
		}
	}
	return keys
}

// sync computes the status of one budget.
func (co *controller) sync(ctx context.Context, key loop.Key) (loop.Result, error) {
	b, ok := co.budgets.Lookup(key)
	if !ok {
		return loop.Result{}, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		return loop.Result{}, loop.Terminal(fmt.Errorf("selector of budget %s: %w", key, err))
	}
	var pods []*podview.Pod
	for p := range co.pods.ListNamespace(b.Namespace) {
		if selector.Matches(labels.Set(p.Labels)) {
			pods = append(pods, p)
		}
	}
	if len(pods) == 0 {
		co.recorder.Eventf(b, corev1.EventTypeNormal, "NoPods", "No matching pods found")
	}
	expected, desired, err := co.expectation(ctx, b, pods)
	if err != nil {
		co.recorder.Eventf(b, corev1.EventTypeWarning, "CalculateExpectedPodCountFailed", "Failed to calculate the number of expected pods: %v", err)
		return loop.Result{}, co.failSafe(ctx, key, b, err)
	}
	status, after := co.status(b, pods, expected, desired)
	return loop.Result{After: after}, co.write(ctx, key, b, status)
}

// status returns a budget's status, and when it must be computed again even if nothing changes.
func (co *controller) status(b *policyv1.PodDisruptionBudget, pods []*podview.Pod, expected, desired int) (policyv1.PodDisruptionBudgetStatus, time.Duration) {
	disrupted, after := co.disrupted(b, pods)
	healthy := 0
	for _, p := range pods {
		if _, going := disrupted[p.Name]; p.DeletionTimestamp == nil && p.Ready && !going {
			healthy++
		}
	}
	allowed := max(0, healthy-desired)
	if expected <= 0 {
		allowed = 0
	}
	s := *b.Status.DeepCopy()
	s.ObservedGeneration, s.DisruptedPods = b.Generation, disrupted
	s.CurrentHealthy, s.DesiredHealthy, s.ExpectedPods, s.DisruptionsAllowed = int32(healthy), number(desired), number(expected), int32(allowed)
	if allowed > 0 {
		co.setCondition(&s, b.Generation, metav1.ConditionTrue, policyv1.SufficientPodsReason, "")
	} else {
		co.setCondition(&s, b.Generation, metav1.ConditionFalse, policyv1.InsufficientPodsReason, "")
	}
	return s, after
}

// number is a number of pods for the status. The sum of declared sizes may need more than 32 bits.
func number(n int) int32 { return int32(min(n, math.MaxInt32)) }

// disrupted returns the pods whose eviction was granted and that are not gone yet.
func (co *controller) disrupted(b *policyv1.PodDisruptionBudget, pods []*podview.Pod) (map[string]metav1.Time, time.Duration) {
	var out map[string]metav1.Time
	var after time.Duration
	for _, p := range pods {
		granted, ok := b.Status.DisruptedPods[p.Name]
		if !ok || p.DeletionTimestamp != nil {
			continue
		}
		left := granted.Add(deletionTimeout).Sub(co.now())
		if left <= 0 {
			co.recorder.Eventf(reference(p), corev1.EventTypeWarning, "NotDeleted", "Pod was expected by PDB %s/%s to be deleted but it wasn't", b.Namespace, b.Name)
			continue
		}
		if out == nil {
			out = map[string]metav1.Time{}
		}
		out[p.Name] = granted
		if after == 0 || left < after {
			after = left
		}
	}
	return out, after
}

// reference is a pod as the object of an event.
func reference(p *podview.Pod) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID}
}

// failSafe allows no evictions, and says why. As in Kubernetes the generation is that of the last look that succeeded.
func (co *controller) failSafe(ctx context.Context, key loop.Key, b *policyv1.PodDisruptionBudget, cause error) error {
	s := *b.Status.DeepCopy()
	s.DisruptionsAllowed = 0
	co.setCondition(&s, s.ObservedGeneration, metav1.ConditionFalse, policyv1.SyncFailedReason, cause.Error())
	if err := co.write(ctx, key, b, s); err != nil {
		return err
	}
	return cause
}

func (co *controller) setCondition(s *policyv1.PodDisruptionBudgetStatus, generation int64, state metav1.ConditionStatus, reason, message string) {
	wanted := metav1.Condition{
		Type: policyv1.DisruptionAllowedCondition, Status: state, Reason: reason, Message: message,
		ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(co.now()),
	}
	for i := range s.Conditions {
		if c := &s.Conditions[i]; c.Type == wanted.Type {
			if c.Status == wanted.Status {
				wanted.LastTransitionTime = c.LastTransitionTime
			}
			*c = wanted
			return
		}
	}
	s.Conditions = append(s.Conditions, wanted)
}

func (co *controller) write(ctx context.Context, key loop.Key, b *policyv1.PodDisruptionBudget, s policyv1.PodDisruptionBudgetStatus) error {
	if apiequality.Semantic.DeepEqual(b.Status, s) {
		return nil
	}
	changed := *b
	changed.Status = s
	// With the resource version, so that an eviction that was granted meanwhile leads to a conflict.
	written, err := co.kube.PolicyV1().PodDisruptionBudgets(b.Namespace).UpdateStatus(ctx, &changed, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("write status of budget %s: %w", key, err)
	}
	loop.Wrote(ctx, co.budgets, written.ResourceVersion)
	return nil
}
