package looptest

import (
	"context"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/internal/demand"
)

// Nodes acts as scheduler and kubelets: pods get one of Count nodes, run, become ready unless Unready says otherwise,
// and end when they are deleted.
type Nodes struct {
	Server  *Server
	Count   int
	Unready func(*corev1.Pod) bool
	// Settle, if set, changes the status of a running pod, for example to Succeeded.
	Settle func(*corev1.Pod)

	started int // pods
}

// Run runs the nodes until ctx ends.
func (n *Nodes) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		list, err := n.Server.Kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		for i := range list.Items {
			n.pod(ctx, &list.Items[i])
		}
		n.follow(ctx, list.ResourceVersion)
	}
	return nil
}

func (n *Nodes) follow(ctx context.Context, revision string) {
	pods, err := n.Server.Kube.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{ResourceVersion: revision})
	if err != nil {
		return
	}
	defer pods.Stop()
	for event := range pods.ResultChan() {
		if pod, ok := event.Object.(*corev1.Pod); ok && event.Type != "DELETED" {
			n.pod(ctx, pod)
		}
	}
}

// pod does one step for a pod. If a write fails, the change that made it fail wakes it again.
func (n *Nodes) pod(ctx context.Context, pod *corev1.Pod) {
	pods := n.Server.Kube.CoreV1().Pods(pod.Namespace)
	if pod.DeletionTimestamp != nil {
		n.end(ctx, pod)
		return
	}
	if pod.Spec.NodeName == "" {
		if len(pod.Spec.SchedulingGates) == 0 {
			_ = pods.Bind(ctx, &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID},
				Target:     corev1.ObjectReference{Kind: "Node", Name: n.nodeFor(pod)},
			}, metav1.CreateOptions{})
		}
		return
	}
	wanted := pod.DeepCopy()
	n.live(wanted)
	if !reflect.DeepEqual(wanted.Status, pod.Status) {
		_, _ = pods.UpdateStatus(ctx, wanted, metav1.UpdateOptions{})
	}
}

// nodeFor returns the node of a pod: the one in its node affinity, or any.
func (n *Nodes) nodeFor(pod *corev1.Pod) string {
	if name := podview.Of(pod).Wanted; name != "" {
		return name
	}
	sum := 0
	for _, b := range []byte(pod.UID) {
		sum += int(b)
	}
	return fmt.Sprintf("node-%d", sum%max(1, n.Count))
}

// end stops the containers. A pod with finalizers stays, with its containers terminated.
func (n *Nodes) end(ctx context.Context, pod *corev1.Pod) {
	if pod.Spec.NodeName == "" || pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0 {
		return
	}
	pods := n.Server.Kube.CoreV1().Pods(pod.Namespace)
	if !demand.Finished(pod.Status.Phase) {
		ended := pod.DeepCopy()
		ended.Status.Phase = corev1.PodFailed
		_, _ = pods.UpdateStatus(ctx, ended, metav1.UpdateOptions{})
	}
	none := int64(0)
	_ = pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &none, Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
}

// live updates the status of a pod.
func (n *Nodes) live(pod *corev1.Pod) {
	if pod.Status.Phase == corev1.PodPending {
		n.started++
		pod.Status.Phase = corev1.PodRunning
		pod.Status.PodIP = fmt.Sprintf("10.%d.%d.%d", n.started/62_500%250, n.started/250%250, n.started%250+1)
		pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
	}
	if pod.Status.Phase == corev1.PodRunning && !Ready(pod) && (n.Unready == nil || !n.Unready(pod)) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
		})
	}
	if pod.Status.Phase == corev1.PodRunning && n.Settle != nil {
		n.Settle(pod)
	}
}

// Ready reports whether a pod is ready.
func Ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return true
		}
	}
	return false
}
