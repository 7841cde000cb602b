package devicetainteviction

import (
	"context"
	"fmt"
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/loop"
)

// ruleEvery is how often the status of a rule is written at the most.
const ruleEvery = 10 * time.Second

// syncRule writes into the status of a rule what it does.
func (r *controller) syncRule(ctx context.Context, key loop.Key) (loop.Result, error) {
	rule, ok := r.rules.Lookup(key)
	if !ok {
		return loop.Result{}, nil
	}
	changed := rule.DeepCopy()
	condition := r.condition(rule)
	condition.Type, condition.ObservedGeneration, condition.LastTransitionTime =
		resourcev1.DeviceTaintConditionEvictionInProgress, rule.Generation, metav1.NewTime(r.now())
	var result loop.Result
	if rule.Spec.Taint.Effect == resourcev1.DeviceTaintEffectNoExecute {
		result.After = ruleEvery
	}
	had := meta.FindStatusCondition(rule.Status.Conditions, condition.Type)
	if had != nil && rule.Spec.Taint.Effect == resourcev1.DeviceTaintEffectNone && had.ObservedGeneration == rule.Generation {
		return result, nil // it is told once
	}
	meta.SetStatusCondition(&changed.Status.Conditions, condition)
	if equality.Semantic.DeepEqual(rule.Status, changed.Status) {
		return result, nil
	}
	if _, err := r.writer.UpdateStatus(ctx, changed); err != nil && !apierrors.IsNotFound(err) {
		return loop.Result{}, fmt.Errorf("write the status of device taint rule %s: %w", rule.Name, err)
	}
	return result, nil
}

func (r *controller) condition(rule *resourcev1.DeviceTaintRule) metav1.Condition {
	c := metav1.Condition{Status: metav1.ConditionFalse, Reason: "Effect" + string(rule.Spec.Taint.Effect)}
	var words []string
	switch rule.Spec.Taint.Effect {
	case resourcev1.DeviceTaintEffectNoExecute:
		r.mu.Lock()
		gone := r.evicted[rule.UID]
		r.mu.Unlock()
		pods, namespaces := r.pending(rule)
		switch {
		case pods > 0:
			c.Status, c.Reason = metav1.ConditionTrue, "PodsPendingEviction"
			words = append(words, fmt.Sprintf("%s to be evicted in %s.", count(pods, "pod needs", "pods need"), count(namespaces, "namespace", "different namespaces")))
		case gone > 0:
			c.Reason = "Completed"
		default:
			c.Reason = "NotStarted"
		}
		if gone > 0 {
			words = append(words, count(gone, "pod", "pods")+" evicted since starting the controller.")
		}
	case resourcev1.DeviceTaintEffectNone:
		c.Reason = "NoEffect"
		published, allocated := r.selected(rule)
		pods, namespaces := r.pending(rule)
		words = append(words,
			count(published, "published device", "published devices")+" selected.",
			count(allocated, "allocated device", "allocated devices")+" selected.",
			fmt.Sprintf("%s would be evicted in %s if the effect was NoExecute.", count(pods, "pod", "pods"), count(namespaces, "namespace", "different namespaces")),
			"This information will not be updated again. Recreate the DeviceTaintRule to trigger an update.")
	}
	c.Message = strings.Join(words, " ")
	return c
}

// pending are the pods that a rule evicts and that are still there, and their namespaces.
func (r *controller) pending(rule *resourcev1.DeviceTaintRule) (pods, namespaces int) {
	in := map[string]bool{}
	for pod := range r.pods.List() {
		if len(pod.Devices) > 0 && pod.Active() && r.sentenceOf(pod, rule) != nil {
			pods, in[pod.Namespace] = pods+1, true
		}
	}
	return pods, len(in)
}

// selected are the devices that a rule is about: those in slices, and those in claims.
func (r *controller) selected(rule *resourcev1.DeviceTaintRule) (published, allocated int) {
	for s := range r.slices.List() {
		for i := range s.Spec.Devices {
			if selects(rule, s.Spec.Driver, s.Spec.Pool.Name, s.Spec.Devices[i].Name) {
				published++
			}
		}
	}
	for c := range r.claims.List() {
		for _, d := range devicesOf(c) {
			if selects(rule, d.Driver, d.Pool, d.Device) {
				allocated++
			}
		}
	}
	return published, allocated
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
