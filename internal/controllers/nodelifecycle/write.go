package nodelifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
)

// silenced returns the conditions of a silent node that must change to Unknown: none if the node is not known to be
// ready or not.
func silenced(node *corev1.Node, now metav1.Time) []corev1.NodeCondition {
	if ready := condition(node, corev1.NodeReady); ready != nil && ready.Status == corev1.ConditionUnknown {
		return nil
	}
	var out []corev1.NodeCondition
	for _, kind := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		old := condition(node, kind)
		c := corev1.NodeCondition{
			Type: kind, Status: corev1.ConditionUnknown, Reason: "NodeStatusNeverUpdated", Message: "Kubelet never posted node status.",
			LastHeartbeatTime: node.CreationTimestamp, LastTransitionTime: now,
		}
		if old != nil {
			if old.Status == corev1.ConditionUnknown {
				continue
			}
			c.Reason, c.Message, c.LastHeartbeatTime = "NodeStatusUnknown", "Kubelet stopped posting node status.", old.LastHeartbeatTime
		}
		out = append(out, c)
	}
	return out
}

// giveUp sets the conditions of a silent node to Unknown.
func (n *controller) giveUp(ctx context.Context, key loop.Key, node *corev1.Node, conditions []corev1.NodeCondition) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": node.UID, "resourceVersion": node.ResourceVersion},
		"status":   map[string]any{"conditions": conditions},
	})
	if err != nil {
		return err
	}
	written, err := n.kube.CoreV1().Nodes().Patch(ctx, node.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("write status of node %s: %w", node.Name, err)
	}
	loop.Wrote(ctx, n.nodes, written.ResourceVersion)
	if old := condition(node, corev1.NodeReady); old != nil && old.Status == corev1.ConditionTrue {
		n.recorder.Eventf(node, corev1.EventTypeNormal, "NodeNotReady", "Node %s status is now: NodeNotReady", node.Name)
	}
	return nil
}

// taint sets the taints that a node should have. It returns when to try again if the rate did not allow one.
func (n *controller) taint(ctx context.Context, key loop.Key, node *corev1.Node) (again time.Duration, err error) {
	now := n.now()
	evicts := failureKey(node)
	switch {
	case evicts == corev1.TaintNodeUnreachable && now.Sub(condition(node, corev1.NodeReady).LastTransitionTime.Time) < recheck:
		evicts, again = "", recheck // first see whether other nodes fall silent as well
	case evicts != "" && n.zones.allFailing():
		evicts, again = "", recheck
	case evicts != "" && evicted(node) == "" && !n.zones.allow(zoneOf(node), now):
		evicts, again = "", recheck
	}
	wanted := taints(node, evicts, metav1.NewTime(now))
	if apiequality.Semantic.DeepEqual(node.Spec.Taints, wanted) {
		return again, nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": node.UID, "resourceVersion": node.ResourceVersion},
		"spec":     map[string]any{"taints": wanted},
	})
	if err != nil {
		return 0, err
	}
	written, err := n.kube.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return 0, fmt.Errorf("taint node %s: %w", node.Name, err)
	}
	loop.Wrote(ctx, n.nodes, written.ResourceVersion)
	if evicts != "" && evicted(node) == "" {
		n.options.Metrics.Evicted(zoneOf(node))
	}
	return again, nil
}

// markPods marks the pods of a silent node as not ready, so that they get no traffic.
func (n *controller) markPods(ctx context.Context, node *corev1.Node) error {
	var pods []*podview.Pod
	for pod := range podview.OnNode(n.pods, node.Name) {
		if pod.Ready {
			pods = append(pods, pod)
		}
	}
	_, err := loop.SlowStart(ctx, len(pods), func(ctx context.Context, i int) error { return n.markPod(ctx, pods[i]) })
	return err
}

func (n *controller) markPod(ctx context.Context, pod *podview.Pod) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status": map[string]any{"conditions": []map[string]any{{
			"type": corev1.PodReady, "status": corev1.ConditionFalse, "lastTransitionTime": metav1.NewTime(n.now()),
		}}},
	})
	if err != nil {
		return err
	}
	_, err = n.kube.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("mark pod %s not ready: %w", informer.KeyOf(pod), err)
	}
	n.recorder.Eventf(&corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		corev1.EventTypeWarning, "NodeNotReady", "Node is not ready")
	return nil
}
