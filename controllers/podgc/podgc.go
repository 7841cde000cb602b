// Package podgc deletes pods that nobody else will: finished ones beyond a
// number, those whose node is gone, those that were deleted before they had a node,
// and those that hang on a node that is out of service.
//
// What is guaranteed: a pod is taken for an orphan only after its node has been
// missing in the cache for 40 seconds and the server itself then said that there is
// no such node. Pods that have not ended are marked failed, with the condition
// DisruptionTarget, before they are deleted.
package podgc

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/controllers/podview"
	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

const (
	name       = "pod-garbage-collector-controller"
	period     = 20 * time.Second
	quarantine = 40 * time.Second
)

// Entry is this loop among the others, with Kubernetes' threshold.
var Entry = Options{}.Entry()

// Options of the loop. The zero value means Kubernetes' own.
type Options struct {
	// Threshold is the number of finished pods that may stay. 0 means 12500, less
	// that all may.
	Threshold int
}

// Entry is this loop among the others.
func (o Options) Entry() loop.Entry {
	o.Threshold = cmp.Or(o.Threshold, 12500)
	return loop.Entry{Name: name, Aliases: []string{"podgc"}, New: o.new}
}

type collector struct {
	options Options
	kube    kubernetes.Interface
	log     *slog.Logger
	now     func() time.Time
	pods    *informer.Shared[*podview.Pod]
	nodes   *informer.Shared[*corev1.Node]
	missing map[string]time.Time // since when nodes with pods are missing
}

func (o Options) new(c *loop.Clients) (loop.Runner, error) {
	g := &collector{
		options: o, kube: c.Kube, log: c.Log, now: c.Now,
		pods:    podview.Informer(c),
		nodes:   loop.Informer(c, informer.For(c.Kube.CoreV1().Nodes())),
		missing: map[string]time.Time{},
	}
	return loop.Func(func(ctx context.Context) error {
		for _, cache := range []loop.Cache{g.pods, g.nodes} {
			if err := cache.Synced(ctx); err != nil {
				return nil // only the end of ctx ends the waiting
			}
		}
		return loop.Every(period, func(ctx context.Context) error {
			g.pass(ctx)
			return nil
		}).Run(ctx)
	}), nil
}

// A verdict is what is to become of a pod.
type verdict struct {
	pod     *podview.Pod
	message string // of the disruption; empty if the pod is only deleted
}

func (g *collector) pass(ctx context.Context) {
	vanished := g.vanished(ctx)
	var verdicts []verdict
	var finished []*podview.Pod
	for pod := range g.pods.List() {
		switch {
		case pod.Node != "" && vanished[pod.Node]:
			verdicts = append(verdicts, verdict{pod, "PodGC: node no longer exists"})
		case pod.Node == "" && pod.DeletionTimestamp != nil:
			verdicts = append(verdicts, verdict{pod, ""})
		case pod.DeletionTimestamp != nil && !pod.Ready && g.outOfService(pod.Node):
			verdicts = append(verdicts, verdict{pod, "PodGC: node out of service"})
		case pod.Finished() && pod.DeletionTimestamp == nil:
			finished = append(finished, pod)
		}
	}
	for _, pod := range surplus(finished, g.options.Threshold) {
		verdicts = append(verdicts, verdict{pod, ""})
	}
	_, _ = loop.SlowStart(ctx, len(verdicts), func(ctx context.Context, i int) error {
		if err := g.execute(ctx, verdicts[i]); err != nil {
			g.log.WarnContext(ctx, "pod not collected", "key", informer.KeyOf(verdicts[i].pod).String(), "err", err)
		}
		return nil
	})
}

// surplus are the oldest of the finished pods beyond the threshold.
func surplus(finished []*podview.Pod, threshold int) []*podview.Pod {
	if threshold < 0 || len(finished) <= threshold {
		return nil
	}
	slices.SortFunc(finished, func(a, b *podview.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return finished[:len(finished)-threshold]
}

// vanished are the nodes that pods are bound to and that are gone for good.
func (g *collector) vanished(ctx context.Context) map[string]bool {
	seen, out := map[string]bool{}, map[string]bool{}
	for pod := range g.pods.List() {
		if pod.Node == "" || seen[pod.Node] {
			continue
		}
		seen[pod.Node] = true
		if g.nodes.Has(loop.Key{Name: pod.Node}) {
			delete(g.missing, pod.Node)
			continue
		}
		since, known := g.missing[pod.Node]
		if !known {
			since = g.now()
			g.missing[pod.Node] = since
		}
		if g.now().Sub(since) < quarantine {
			continue
		}
		_, err := g.kube.CoreV1().Nodes().Get(ctx, pod.Node, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			out[pod.Node] = true
		}
	}
	for node := range g.missing {
		if !seen[node] {
			delete(g.missing, node)
		}
	}
	return out
}

func (g *collector) outOfService(name string) bool {
	node, ok := g.nodes.Get("", name)
	if !ok {
		return false
	}
	tainted := slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
	ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	return tainted && !ready
}

func (g *collector) execute(ctx context.Context, v verdict) error {
	pods := g.kube.CoreV1().Pods(v.pod.Namespace)
	if v.message != "" && !v.pod.Finished() {
		if err := g.fail(ctx, v); err != nil {
			return err
		}
	}
	at := int64(0)
	err := pods.Delete(ctx, v.pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &at, Preconditions: &metav1.Preconditions{UID: &v.pod.UID}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete: %w", err)
	}
	return nil
}

// fail marks a pod whose end nobody else will report.
func (g *collector) fail(ctx context.Context, v verdict) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": v.pod.UID},
		"status": map[string]any{
			"phase": corev1.PodFailed,
			"conditions": []corev1.PodCondition{{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByPodGC", ObservedGeneration: v.pod.Generation,
				Message: v.message, LastTransitionTime: metav1.NewTime(g.now()),
			}},
		},
	})
	if err != nil {
		return err
	}
	_, err = g.kube.CoreV1().Pods(v.pod.Namespace).Patch(ctx, v.pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("mark failed: %w", err)
	}
	return nil
}
