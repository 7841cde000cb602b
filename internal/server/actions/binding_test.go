package actions

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestABoundPodIsNominatedNowhere(t *testing.T) {
	pod := &corev1.Pod{Status: corev1.PodStatus{NominatedNodeName: "other"}}
	bound, err := assign(pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "node"}})
	if err != nil || bound.Spec.NodeName != "node" || bound.Status.NominatedNodeName != "" {
		t.Errorf("the pod is %+v, %v", bound, err)
	}
}
