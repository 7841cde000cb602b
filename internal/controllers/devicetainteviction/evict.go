package devicetainteviction

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/loop"
)

// sentence is when a pod goes, and because of which rules.
type sentence struct {
	at    time.Time
	rules []types.UID
}

func (r *controller) syncPod(ctx context.Context, key loop.Key) (loop.Result, error) {
	pod, ok := r.pods.Lookup(key)
	if !ok || !pod.Active() {
		return loop.Result{}, nil // deletion is what was wanted
	}
	s := r.sentenceOf(pod, nil)
	if s == nil {
		if r.doom(pod.UID, false) {
			r.tell(pod, "Cancelling deletion")
		}
		return loop.Result{}, nil
	}
	r.doom(pod.UID, true)
	if left := s.at.Sub(r.now()); left > 0 {
		return loop.Result{After: left}, nil
	}
	if err := r.evict(ctx, pod); err != nil {
		return loop.Result{}, settled(err)
	}
	r.Evicted(r.now().Sub(s.at))
	loop.Removed(ctx, r.pods, pod)
	r.doom(pod.UID, false)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rule := range s.rules {
		r.evicted[rule]++
	}
	return loop.Result{}, nil
}

// doom notes whether a pod is going to be evicted, and returns whether it was before.
func (r *controller) doom(pod types.UID, is bool) (was bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	was = r.doomed[pod]
	if is {
		r.doomed[pod] = true
	} else {
		delete(r.doomed, pod)
	}
	return was
}

// sentenceOf is when a pod goes, or nil if it may stay. With a rule, it is as if that had the effect NoExecute and
// nothing else had taints.
func (r *controller) sentenceOf(pod *podview.Pod, only *resourcev1.DeviceTaintRule) *sentence {
	if pod.Node == "" {
		return nil
	}
	var first *sentence
	for i := range pod.Devices {
		claim, ok := r.claims.Get(pod.Namespace, pod.Devices[i].Claim)
		if !ok || !slices.ContainsFunc(claim.Status.ReservedFor, func(user resourcev1.ResourceClaimConsumerReference) bool { return user.UID == pod.UID }) {
			continue
		}
		for _, d := range devicesOf(claim) {
			for taint, rule := range r.taints(d.Driver, d.Pool, d.Device, only) {
				at, ends := end(taint, d.Tolerations)
				if !ends {
					continue
				}
				if first == nil {
					first = &sentence{at: at}
				}
				if at.Before(first.at) {
					first.at = at
				}
				if rule != "" && !slices.Contains(first.rules, rule) {
					first.rules = append(first.rules, rule)
				}
			}
		}
	}
	return first
}

// taints ranges over the taints of effect NoExecute that a device has, with the uids of the rules that they come from.
func (r *controller) taints(driver, pool, name string, only *resourcev1.DeviceTaintRule) func(yield func(*resourcev1.DeviceTaint, types.UID) bool) {
	return func(yield func(*resourcev1.DeviceTaint, types.UID) bool) {
		if only != nil {
			if selects(only, driver, pool, name) {
				yield(&only.Spec.Taint, only.UID)
			}
			return
		}
		for _, taint := range r.published(driver, pool, name) {
			if taint.Effect == resourcev1.DeviceTaintEffectNoExecute && !yield(&taint, "") {
				return
			}
		}
		for rule := range r.rules.List() {
			if rule.Spec.Taint.Effect == resourcev1.DeviceTaintEffectNoExecute && selects(rule, driver, pool, name) && !yield(&rule.Spec.Taint, rule.UID) {
				return
			}
		}
	}
}

// published are the taints of a device in the slices of its pool's last generation.
func (r *controller) published(driver, pool, name string) []resourcev1.DeviceTaint {
	var taints []resourcev1.DeviceTaint
	var last int64
	for s := range r.slices.By(tainted, device(driver, pool, name)) {
		i := slices.IndexFunc(s.Spec.Devices, func(d resourcev1.Device) bool { return d.Name == name })
		if i >= 0 && (taints == nil || s.Spec.Pool.Generation > last) {
			taints, last = s.Spec.Devices[i].Taints, s.Spec.Pool.Generation
		}
	}
	return taints
}

// end is when a taint is no longer tolerated, if it is tolerated for a time.
func end(taint *resourcev1.DeviceTaint, tolerations []resourcev1.DeviceToleration) (at time.Time, ends bool) {
	if taint.TimeAdded != nil {
		at = taint.TimeAdded.Time
	}
	tolerated, least := false, int64(0)
	for _, t := range tolerations {
		switch {
		case !resourceclaim.ToleratesTaint(t, *taint):
			continue
		case t.TolerationSeconds == nil:
			return at, false
		case !tolerated || *t.TolerationSeconds < least:
			tolerated, least = true, max(0, *t.TolerationSeconds)
		}
	}
	return at.Add(demand.Seconds(least)), true
}

func (r *controller) evict(ctx context.Context, pod *podview.Pod) error {
	r.tell(pod, "Marking for deletion")
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status": map[string]any{"conditions": []corev1.PodCondition{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByDeviceTaintManager",
			Message: "Device Taint manager: deleting due to NoExecute taint", LastTransitionTime: metav1.NewTime(r.now()),
			ObservedGeneration: pod.Generation,
		}}},
	})
	if err != nil {
		return err
	}
	pods := r.kube.CoreV1().Pods(pod.Namespace)
	if _, err := pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("mark pod %s: %w", informer.KeyOf(pod), err)
	}
	err = pods.Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	if err != nil {
		return fmt.Errorf("evict pod %s: %w", informer.KeyOf(pod), err)
	}
	return nil
}

// settled is nil if the error says that this pod is gone anyway.
func settled(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func (r *controller) tell(pod *podview.Pod, message string) {
	r.recorder.Eventf(&corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		corev1.EventTypeNormal, "DeviceTaintManagerEviction", "%s", message)
}
