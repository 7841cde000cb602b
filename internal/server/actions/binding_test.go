package actions

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestABoundPodIsNominatedNowhere(t *testing.T) {
	pod := &corev1.Pod{Status: corev1.PodStatus{NominatedNodeName: "other"}}
	bound, err := assign(pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "node"}})
	if err != nil || bound.Spec.NodeName != "node" || bound.Status.NominatedNodeName != "" {
		t.Errorf("the pod is %+v, %v", bound, err)
	}
}

func TestABindingIsCheckedBeforeAPodGetsWhatItSays(t *testing.T) {
	node := corev1.ObjectReference{Kind: "Node", Name: "node"}
	long := strings.Repeat("x", 200<<10)
	for want, b := range map[string]corev1.Binding{
		"metadata.labels: Invalid value":            {ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"not a label": "x"}}, Target: node},
		"metadata.labels: Invalid":                  {ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "not a value"}}, Target: node},
		"metadata.annotations: Invalid value":       {ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"not a key": "x"}}, Target: node},
		"metadata.annotations: Too long":            {ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"a": long + long}}, Target: node},
		"target.name: Invalid value: \"../\"":       {Target: corev1.ObjectReference{Name: "../"}},
		"target.name: Required value":               {},
		"target.kind: Unsupported value: \"Thing\"": {Target: corev1.ObjectReference{Kind: "Thing", Name: "node"}},
	} {
		if err := checkBinding(&b); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	good := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"b": long}}, Target: node}
	if err := checkBinding(good); err != nil {
		t.Error(err)
	}
	if _, err := assign(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"a": long}}}, good); !apierrors.IsInvalid(err) {
		t.Errorf("annotations that are too long together: %v", err)
	}
}
