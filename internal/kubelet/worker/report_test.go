package worker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// The end of a pod is reported once. A conflict with another writer must not prevent the deletion for good.
func TestAPodIsDeletedInSpiteOfConflicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := metav1.Now()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "subject", UID: "1", DeletionTimestamp: &now, DeletionGracePeriodSeconds: new(int64(1)),
		}}
		kube := fake.NewClientset(pod)
		refused := 0
		kube.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			if refused++; refused > 2 {
				return false, nil, nil
			}
			return true, nil, apierrors.NewConflict(corev1.Resource("pods"), "subject", errors.New("it has been modified"))
		})
		r := NewReporter(ReporterOptions{Kube: kube, Cached: func(Key) (*corev1.Pod, bool) { return pod, true }})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		r.Report(t.Context(), pod, &corev1.PodStatus{Phase: corev1.PodFailed}, true)
		time.Sleep(time.Minute)
		if _, err := kube.CoreV1().Pods("default").Get(t.Context(), "subject", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("after %d refusals the pod is still there: %v", refused, err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
