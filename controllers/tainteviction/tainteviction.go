// Package tainteviction deletes pods from nodes with NoExecute taints that they do not tolerate, or no longer.
//
// Guarantees: a pod that tolerates all such taints of its node without a time limit is never touched. A pod that tolerates one of
// them for a limited time is deleted when that time has passed since the taint was added, or since the pod was created if that
// was later. If the taint is removed in time, nothing happens. All this is computed from the objects each time, so a restart
// loses nothing. A pod gets the condition DisruptionTarget before it is deleted.
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

	"github.com/millrace/millrace/controllers/podview"
	"github.com/millrace/millrace/informer"
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
		nodes: loop.Informer(c, informer.For(c.Kube.CoreV1().Nodes())),
		pods:  podview.Informer(c),
	}
	return &loop.Loop{
		Name: name, Clients: c, Workers: 8, Sync: e.sync,
		Watches: []loop.Watch{
			loop.Changes(e.nodes, tainted),
			loop.Changes(e.pods, e.placed),
		},
	}, nil
}

// tainted wakes a node that has or had NoExecute taints.
func tainted(before, after *corev1.Node) (keys []loop.Key) {
	for _, node := range []*corev1.Node{after, before} {
		if node != nil && len(evicting(node)) > 0 {
			return []loop.Key{{Name: node.Name}}
		}
	}
	return nil
}

// placed wakes the node of a pod that was scheduled or whose tolerations have changed, if the node has NoExecute taints.
func (e *controller) placed(before, after *podview.Pod) []loop.Key {
	if after == nil || after.Node == "" {
		return nil
	}
	if before != nil && before.Node == after.Node && len(before.Tolerations) == len(after.Tolerations) {
		return nil // tolerations can only be added
	}
	node, ok := e.nodes.Get("", after.Node)
	if !ok || len(evicting(node)) == 0 {
		return nil
	}
	return []loop.Key{{Name: node.Name}}
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
		e.pendingEvictions.set(key.Name, nil)
		return loop.Result{}, nil
	}
	taints := evicting(node)
	e.sightings.date(key.Name, taints, e.now())
	if len(taints) == 0 {
		e.announceCancelled(key.Name, nil)
		return loop.Result{}, nil
	}
	var due []verdict
	var next time.Duration
	waiting := map[types.UID]bool{}
	for pod := range podview.OnNode(e.pods, key.Name) {
		at, ends := deadline(pod, taints)
		left := at.Sub(e.now())
		switch {
		case !ends || !pod.Active():
		case left <= 0:
			waiting[pod.UID] = true // until the cache shows that it is gone
			due = append(due, verdict{pod, at})
		default:
			waiting[pod.UID] = true
			if next == 0 || left < next {
				next = left
			}
		}
	}
	e.announceCancelled(key.Name, waiting)
	_, err := loop.SlowStart(ctx, len(due), func(ctx context.Context, i int) error { return e.evict(ctx, due[i]) })
	return loop.Result{After: next}, err
}

// deadline returns when a pod no longer tolerates the taints, if ever.
func deadline(pod *podview.Pod, taints []corev1.Taint) (at time.Time, ends bool) {
	for _, taint := range taints {
		start := taint.TimeAdded.Time
		if pod.CreationTimestamp.After(start) {
			start = pod.CreationTimestamp.Time
		}
		for _, tolerated := range tolerationTimes(pod, taint) {
			if end := start.Add(tolerated); !ends || end.Before(at) {
				at, ends = end, true
			}
		}
	}
	return at, ends
}

// tolerationTimes returns how long the pod tolerates a taint: nil if it does so for ever, and zero if it does not at all.
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
			out = append(out, time.Duration(max(0, *t.TolerationSeconds))*time.Second)
		}
	}
	if !tolerated {
		return []time.Duration{0}
	}
	return slices.Clip(out)
}

// verdict is a pod that has to go, and since when.
type verdict struct {
	pod *podview.Pod
	at  time.Time
}

func (e *controller) evict(ctx context.Context, v verdict) error {
	pod := v.pod
	e.recordEvent(pod, "Marking for deletion Pod %s")
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status": map[string]any{"conditions": []corev1.PodCondition{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager",
			Message: "Taint manager: deleting due to NoExecute taint", LastTransitionTime: metav1.NewTime(e.now()),
			ObservedGeneration: pod.Generation,
		}}},
	})
	if err != nil {
		return err
	}
	pods := e.kube.CoreV1().Pods(pod.Namespace)
	if _, err := pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return settled(fmt.Errorf("mark pod %s: %w", informer.KeyOf(pod), err))
	}
	err = pods.Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	if err != nil {
		return settled(fmt.Errorf("evict pod %s: %w", informer.KeyOf(pod), err))
	}
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
