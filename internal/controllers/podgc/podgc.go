// Package podgc deletes pods that nothing else deletes: finished ones above a threshold, those whose node is gone,
// those that were deleted before they had a node, and those that cannot end because their node is out of service.
//
// Guarantees: a pod counts as orphaned only after its node was missing in the cache for 40 seconds and the server then
// confirmed that the node does not exist. Pods that have not ended are marked as failed, with the condition
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

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
)

const (
	name       = "pod-garbage-collector-controller"
	period     = 20 * time.Second
	quarantine = 40 * time.Second
)

// Entry is this loop among the others, with Kubernetes' threshold.
var Entry = Options{}.Entry()

// Options configure the loop. The zero value means Kubernetes' defaults.
type Options struct {
	// Threshold is the number of finished pods that are kept. 0 means 12500; a negative value keeps all.
	Threshold int
	// Deleted, if set, is called after each attempt to delete a pod, for metrics.
	Deleted func(namespace string, why Why, err error)
}

// Why is why a pod is deleted.
type Why string

// The reasons.
const (
	Surplus      Why = "terminated"     // it has ended, and there are too many such pods
	Orphaned     Why = "orphaned"       // its node is gone
	Unscheduled  Why = "unscheduled"    // it was deleted before it had a node
	OutOfService Why = "out-of-service" // its node is out of service
)

// Entry is this loop among the others.
func (o Options) Entry() loop.Entry {
	o.Threshold = cmp.Or(o.Threshold, 12500)
	if o.Deleted == nil {
		o.Deleted = func(string, Why, error) {}
	}
	return loop.Entry{Name: name, Aliases: []string{"podgc"}, New: o.new}
}

type collector struct {
	options Options
	kube    kubernetes.Interface
	log     *slog.Logger
	now     func() time.Time
	pods    *informer.Shared[*podview.Pod]
	nodes   *informer.Shared[*corev1.Node]
	missing map[string]time.Time // when nodes with pods were first found missing
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
				return nil // the only error is the end of ctx
			}
		}
		return loop.Every(period, func(ctx context.Context) error {
			g.collect(ctx)
			return nil
		}).Run(ctx)
	}), nil
}

// deletion is a pod to delete.
type deletion struct {
	pod     *podview.Pod
	why     Why
	message string // of the condition DisruptionTarget; empty if the pod is only deleted
}

func (c *collector) collect(ctx context.Context) {
	vanished := c.vanished(ctx)
	var verdicts []deletion
	var finished []*podview.Pod
	for pod := range c.pods.List() {
		switch {
		case pod.Node != "" && vanished[pod.Node]:
			verdicts = append(verdicts, deletion{pod, Orphaned, "PodGC: node no longer exists"})
		case pod.Node == "" && pod.DeletionTimestamp != nil:
			verdicts = append(verdicts, deletion{pod, Unscheduled, ""})
		case pod.DeletionTimestamp != nil && !pod.Ready && c.outOfService(ctx, pod.Node):
			verdicts = append(verdicts, deletion{pod, OutOfService, "PodGC: node out of service"})
		case pod.Finished() && pod.DeletionTimestamp == nil:
			finished = append(finished, pod)
		}
	}
	for _, pod := range surplus(finished, c.options.Threshold) {
		verdicts = append(verdicts, deletion{pod, Surplus, ""})
	}
	_, _ = loop.SlowStart(ctx, len(verdicts), func(ctx context.Context, i int) error {
		err := c.deletePod(ctx, verdicts[i])
		c.options.Deleted(verdicts[i].pod.Namespace, verdicts[i].why, err)
		if err != nil {
			c.log.WarnContext(ctx, "pod not collected", "key", informer.KeyOf(verdicts[i].pod).String(), "err", err)
		}
		return nil
	})
}

// surplus returns the oldest finished pods above the threshold.
func surplus(finished []*podview.Pod, threshold int) []*podview.Pod {
	if threshold < 0 || len(finished) <= threshold {
		return nil
	}
	slices.SortFunc(finished, func(a, b *podview.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return finished[:len(finished)-threshold]
}

// vanished returns the nodes of pods that do not exist any more.
func (c *collector) vanished(ctx context.Context) map[string]bool {
	seen, out := map[string]bool{}, map[string]bool{}
	for pod := range c.pods.List() {
		if pod.Node == "" || seen[pod.Node] {
			continue
		}
		seen[pod.Node] = true
		if c.nodes.Has(loop.Key{Name: pod.Node}) {
			delete(c.missing, pod.Node)
			continue
		}
		since, known := c.missing[pod.Node]
		if !known {
			since = c.now()
			c.missing[pod.Node] = since
		}
		if c.now().Sub(since) < quarantine {
			continue
		}
		_, err := c.kube.CoreV1().Nodes().Get(ctx, pod.Node, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			out[pod.Node] = true
		}
	}
	for node := range c.missing {
		if !seen[node] {
			delete(c.missing, node)
		}
	}
	return out
}

// outOfService reports whether somebody has said that a node is off. The API is asked as well: the node may be in
// service again, and run the pod.
func (c *collector) outOfService(ctx context.Context, name string) bool {
	if node, ok := c.nodes.Get("", name); !ok || !isOutOfService(node) {
		return false
	}
	node, err := c.kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	return err == nil && isOutOfService(node)
}

func isOutOfService(node *corev1.Node) bool {
	tainted := slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
	ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	return tainted && !ready
}

func (c *collector) deletePod(ctx context.Context, v deletion) error {
	pods := c.kube.CoreV1().Pods(v.pod.Namespace)
	if v.message != "" && !v.pod.Finished() {
		if changed, err := c.fail(ctx, v); changed || err != nil {
			return err
		}
	}
	at, only := int64(0), &metav1.Preconditions{UID: &v.pod.UID}
	if v.why == Unscheduled {
		only.ResourceVersion = &v.pod.ResourceVersion // it may have got a node, whose kubelet must say when it has ended
	}
	err := pods.Delete(ctx, v.pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &at, Preconditions: only})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete: %w", err)
	}
	return nil
}

// fail marks a pod as failed, because no kubelet will report its end. If the pod is another one or has changed, it may
// have succeeded: the next collection looks again.
func (c *collector) fail(ctx context.Context, v deletion) (changed bool, err error) {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": v.pod.UID, "resourceVersion": v.pod.ResourceVersion},
		"status": map[string]any{
			"phase": corev1.PodFailed,
			"conditions": []corev1.PodCondition{{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByPodGC", ObservedGeneration: v.pod.Generation,
				Message: v.message, LastTransitionTime: metav1.NewTime(c.now()),
			}},
		},
	})
	if err != nil {
		return false, err
	}
	_, err = c.kube.CoreV1().Pods(v.pod.Namespace).Patch(ctx, v.pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("mark failed: %w", err)
	}
	return false, nil
}
