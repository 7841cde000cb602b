// Package tainteviction deletes pods from nodes with NoExecute taints that they do not tolerate, or no longer.
//
// Guarantees: a pod that tolerates all such taints of its node without a time limit is never touched. A pod that
// tolerates one of them for a limited time is deleted when that time has passed since the taint was added, or since the
// pod got its node if that was later. If the taint is removed in time, nothing happens. What this process has seen
// happen has the time of its own clock: the times in objects are those of other machines' clocks, and count only for
// what was there when it started, where they are at most the time of the start. So a restart loses nothing but the
// events of evictions that are cancelled. A pod gets the condition DisruptionTarget before it is deleted. Pods that
// have ended, and those that are being deleted for another reason, are evicted as well, and no pod more than once.
package tainteviction

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/loop"
)

const name = "taint-eviction-controller"

// Entry is this loop among the others, without metrics.
var Entry = Options{}.Entry()

// Options configure the loop.
type Options struct {
	// Evicted, if set, is called when a pod was deleted, with how much later than it had to go.
	Evicted func(late time.Duration)
}

// Entry is this loop among the others.
func (o Options) Entry() loop.Entry {
	if o.Evicted == nil {
		o.Evicted = func(time.Duration) {}
	}
	return loop.Entry{Name: name, Aliases: []string{"taint-eviction"}, New: o.new}
}

type controller struct {
	Options
	kube             kubernetes.Interface
	recorder         loop.Recorder
	now              func() time.Time
	nodes            *informer.Shared[*corev1.Node]
	pods             *informer.Shared[*podview.Pod]
	pendingEvictions pendingEvictions
	sightings        sightings
}

// new returns the loop. Its keys are nodes.
func (o Options) new(c *loop.Clients) (loop.Runner, error) {
	e := &controller{
		Options: o,
		kube:    c.Kube, recorder: c.Recorder, now: c.Now,
		nodes:     loop.Informer(c, informer.For(c.Kube.CoreV1().Nodes())),
		pods:      podview.Informer(c),
		sightings: sightings{nodes: map[string]map[corev1.Taint]time.Time{}, pods: map[types.UID]time.Time{}},
	}
	return &loop.Loop{
		Name: name, Clients: c, Workers: 8, Sync: e.sync,
		Watches: []loop.Watch{
			loop.Changes(e.nodes, e.tainted),
			loop.Changes(e.pods, e.placed),
		},
	}, nil
}

// tainted wakes a node that has or had NoExecute taints.
func (e *controller) tainted(before, after *corev1.Node) (keys []loop.Key) {
	if before != nil && after != nil {
		e.sightings.added(after.Name, evicting(before), evicting(after), e.now())
	}
	for _, node := range []*corev1.Node{after, before} {
		if node != nil && len(evicting(node)) > 0 {
			return []loop.Key{{Name: node.Name}}
		}
	}
	return nil
}

// placed wakes the node of a pod that was scheduled or whose tolerations have changed, if the node has NoExecute
// taints, and that of a pod that is gone and may have been going to be evicted.
func (e *controller) placed(before, after *podview.Pod) []loop.Key {
	pod := after
	if after == nil {
		pod = before
	}
	if pod == nil || pod.Node == "" {
		return nil
	}
	if after != nil && before != nil && before.Node == after.Node && len(before.Tolerations) == len(after.Tolerations) {
		return nil // tolerations can only be added
	}
	node, ok := e.nodes.Get("", pod.Node)
	switch {
	case after == nil:
		e.sightings.left(pod.UID)
	case ok && len(evicting(node)) > 0 && (before == nil || before.Node == ""):
		e.sightings.arrived(pod.UID, e.now())
	}
	if ok && len(evicting(node)) > 0 || after == nil && e.pendingEvictions.has(pod.Node, pod.UID) {
		return []loop.Key{{Name: pod.Node}}
	}
	return nil
}

func evicting(node *corev1.Node) []corev1.Taint {
	var out []corev1.Taint
	for _, t := range node.Spec.Taints {
		if t.Effect == corev1.TaintEffectNoExecute {
			out = append(out, t)
		}
	}
	return out
}

func (e *controller) sync(ctx context.Context, key loop.Key) (loop.Result, error) {
	node, ok := e.nodes.Lookup(key)
	if !ok {
		e.sightings.date(key.Name, nil, e.now())
		e.leave(key.Name)
		return loop.Result{}, nil
	}
	e.sightings.begin()
	taints := evicting(node)
	e.sightings.date(key.Name, taints, e.now())
	var due []verdict
	var next time.Duration
	waiting, expired := pods{}, pods{}
	for pod := range podview.OnNode(e.pods, key.Name) {
		at, ends := deadline(pod, e.sightings.since(pod, e.now()), taints)
		left := at.Sub(e.now())
		switch {
		case !ends:
		case left > 0:
			waiting.add(pod)
			if next == 0 || left < next {
				next = left
			}
		case evicted(pod):
		default:
			due = append(due, verdict{pod, at})
			if tolerated(pod, taints) {
				expired.add(pod)
			}
		}
	}
	e.announceCancelled(key.Name, waiting, expired)
	_, err := loop.SlowStart(ctx, len(due), func(ctx context.Context, i int) error { return e.evict(ctx, key, due[i]) })
	return loop.Result{After: next}, err
}

// leave keeps the pods of a node that is gone until they are gone too. Somebody else deletes them.
func (e *controller) leave(node string) {
	waiting := pods{}
	for pod := range podview.OnNode(e.pods, node) {
		if e.pendingEvictions.has(node, pod.UID) {
			waiting.add(pod)
		}
	}
	e.announceCancelled(node, waiting, nil)
}

// evicted tells that a pod was evicted already, and is still there.
func evicted(pod *podview.Pod) bool {
	target, marked := pod.Condition(corev1.DisruptionTarget)
	return pod.DeletionTimestamp != nil && marked && target.Reason == reason
}

// tolerated tells that a pod tolerates each taint, be it for a limited time.
func tolerated(pod *podview.Pod, taints []corev1.Taint) bool {
	return !slices.ContainsFunc(taints, func(taint corev1.Taint) bool {
		return !slices.ContainsFunc(pod.Tolerations, func(t corev1.Toleration) bool { return t.ToleratesTaint(klog.Logger{}, &taint, true) })
	})
}

// deadline returns when a pod that is on its node since a time no longer tolerates the taints, if ever.
func deadline(pod *podview.Pod, since time.Time, taints []corev1.Taint) (at time.Time, ends bool) {
	for _, taint := range taints {
		start := taint.TimeAdded.Time
		if since.After(start) {
			start = since
		}
		for _, tolerated := range tolerationTimes(pod, taint) {
			if end := start.Add(tolerated); !ends || end.Before(at) {
				at, ends = end, true
			}
		}
	}
	return at, ends
}

// tolerationTimes returns how long the pod tolerates a taint: nil if it does so for ever, and zero if it does not at
// all.
func tolerationTimes(pod *podview.Pod, taint corev1.Taint) []time.Duration {
	tolerated := false
	var out []time.Duration
	for i := range pod.Tolerations {
		t := &pod.Tolerations[i]
		if !t.ToleratesTaint(klog.Logger{}, &taint, true) {
			continue
		}
		tolerated = true
		if t.TolerationSeconds != nil {
			out = append(out, demand.Seconds(max(0, *t.TolerationSeconds)))
		}
	}
	if !tolerated {
		return []time.Duration{0}
	}
	return slices.Clip(out)
}

// reason is that of the condition that an evicted pod gets.
const reason = "DeletionByTaintManager"

// verdict is a pod that has to go, and since when.
type verdict struct {
	pod *podview.Pod
	at  time.Time
}

func (e *controller) evict(ctx context.Context, key loop.Key, v verdict) error {
	pod := v.pod
	e.recordEvent(pod.UID, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, "Marking for deletion Pod %s")
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status": map[string]any{"conditions": []corev1.PodCondition{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason,
			Message: "Taint manager: deleting due to NoExecute taint", LastTransitionTime: metav1.NewTime(e.now()),
			ObservedGeneration: pod.Generation,
		}}},
	})
	if err != nil {
		return err
	}
	pods := e.kube.CoreV1().Pods(pod.Namespace)
	marked, err := pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return settled(fmt.Errorf("mark pod %s: %w", informer.KeyOf(pod), err))
	}
	loop.Wrote(ctx, e.pods, marked.ResourceVersion)
	err = pods.Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	if err != nil {
		return settled(fmt.Errorf("evict pod %s: %w", informer.KeyOf(pod), err))
	}
	loop.Removed(ctx, e.pods, pod)
	e.Evicted(e.now().Sub(v.at))
	return nil
}

// settled returns nil if the error means that this pod is gone.
func settled(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
