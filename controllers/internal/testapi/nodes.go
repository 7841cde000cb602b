package testapi

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

var pods = Kind{Resource: "pods"}.groupResource()

// Nodes plays scheduler and kubelets until ctx ends: pods get one of n nodes,
// run, become ready unless unready says otherwise, and end when they are deleted.
type Nodes struct {
	Server  *Server
	Count   int
	Unready func(*corev1.Pod) bool
	// Settle, if set, decides what becomes of a running pod, such as its success.
	Settle func(*corev1.Pod)
}

// Run is the nodes' life.
func (n *Nodes) Run(ctx context.Context) error {
	for {
		moved := n.Server.Moved()
		n.pass()
		select {
		case <-moved:
		case <-ctx.Done():
			return nil
		}
	}
}

func (n *Nodes) pass() {
	s := n.Server
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.selectLocked(pods, func(*object) bool { return true }) {
		key := objectKey{pods, o.GetNamespace(), o.GetName()}
		if o.GetDeletionTimestamp() != nil {
			n.endLocked(key, o)
			continue
		}
		pod := typed[corev1.Pod](o)
		before := pod.DeepCopy()
		n.live(pod)
		if before.Spec.NodeName != pod.Spec.NodeName || before.Status.Phase != pod.Status.Phase || len(before.Status.Conditions) != len(pod.Status.Conditions) {
			s.putLocked(key, untyped(pod))
		}
	}
}

// endLocked ends the containers; what finalizers hold stays, as finished.
func (n *Nodes) endLocked(key objectKey, o *object) {
	if grace := o.GetDeletionGracePeriodSeconds(); grace != nil && *grace > 0 {
		o = o.DeepCopy()
		setMeta(o, "deletionGracePeriodSeconds", int64(0))
		if phase, _, _ := unstructured.NestedString(o.Object, "status", "phase"); phase != "Succeeded" {
			_ = unstructured.SetNestedField(o.Object, "Failed", "status", "phase")
		}
		n.Server.putLocked(key, o)
	}
	if n.Server.finishedLocked(o) {
		n.Server.removeLocked(key)
	}
}

func (n *Nodes) live(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" {
		pod.Spec.NodeName = fmt.Sprintf("node-%d", len(pod.UID)*int(pod.UID[0])%max(1, n.Count))
	}
	if pod.Status.Phase == corev1.PodPending {
		pod.Status.Phase = corev1.PodRunning
		pod.Status.PodIP = fmt.Sprintf("10.0.%d.%d", n.Server.version/250%250, n.Server.version%250+1)
		pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
	}
	if pod.Status.Phase == corev1.PodRunning && len(pod.Status.Conditions) == 0 && (n.Unready == nil || !n.Unready(pod)) {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	}
	if pod.Status.Phase == corev1.PodRunning && n.Settle != nil {
		n.Settle(pod)
	}
}

func typed[T any](o *object) *T {
	t := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, t); err != nil {
		panic(err)
	}
	return t
}

func untyped(t any) *object {
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(t)
	if err != nil {
		panic(err)
	}
	return &object{Object: m}
}

// Edit changes an object as if somebody had written it through every path at
// once. It does nothing if there is no such object.
func Edit[T any](s *Server, resource, namespace, name string, edit func(*T)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, o := range s.objects {
		if key.resource.Resource == resource && key.namespace == namespace && key.name == name {
			t := typed[T](o)
			edit(t)
			s.putLocked(key, untyped(t))
			return
		}
	}
}
