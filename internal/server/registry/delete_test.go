package registry

import (
	"context"
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAnotherDeleteThatChangesNothingIsNotAdmittedAgain(t *testing.T) {
	w, ctx := newWorld(t, 0), context.Background()
	kind, _ := w.maps.registry.Catalogue.Kind(corev1.Resource("pods"))
	pods, err := w.maps.registry.Storage(kind)
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	kind.Default(pod)
	if _, err := pods.Create(ctx, "n", pod, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	asked := 0
	w.maps.registry.Admission = []Admission{{Name: "counts", Validate: func(context.Context, *Change) error { asked++; return nil }}}
	foreground := metav1.DeletePropagationForeground
	for i, step := range []struct {
		options metav1.DeleteOptions
		grace   int64
		asked   int
	}{
		{metav1.DeleteOptions{}, 30, 1},
		{metav1.DeleteOptions{}, 30, 1},
		{metav1.DeleteOptions{GracePeriodSeconds: new(int64(40)), PropagationPolicy: &foreground}, 30, 1},
		{metav1.DeleteOptions{GracePeriodSeconds: new(int64(10))}, 10, 2},
		{metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}, 0, 3},
	} {
		got, err := pods.Delete(ctx, "n", "p", step.options, WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if grace := *got.Object.GetDeletionGracePeriodSeconds(); grace != step.grace || asked != step.asked || got.Gone != (step.grace == 0) || len(got.Object.GetFinalizers()) > 0 {
			t.Errorf("delete %d: grace %d, gone %v, finalizers %v, admission was asked %d times", i, grace, got.Gone, got.Object.GetFinalizers(), asked)
		}
	}
}

func TestAGracePeriodOfAnyLengthEndsLater(t *testing.T) {
	w, ctx := newWorld(t, 0), context.Background()
	kind, _ := w.maps.registry.Catalogue.Kind(corev1.Resource("pods"))
	pods, err := w.maps.registry.Storage(kind)
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	kind.Default(pod)
	if _, err := pods.Create(ctx, "n", pod, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	began := w.maps.registry.Now().Truncate(timeGrain)
	remove := func(seconds int64) (time.Duration, int64) {
		got, err := pods.Delete(ctx, "n", "p", metav1.DeleteOptions{GracePeriodSeconds: &seconds}, WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return got.Object.GetDeletionTimestamp().Sub(began), *got.Object.GetDeletionGracePeriodSeconds()
	}
	// 2^63 nanoseconds are 9,223,372,036 seconds, so twice that and one more is about a second.
	for _, seconds := range []int64{math.MaxInt64, 18_446_744_075, 9_223_372_037} {
		if left, grace := remove(seconds); left < 100*365*24*time.Hour || grace != seconds {
			t.Errorf("a grace period of %d seconds: it ends in %v, and is said to be %d", seconds, left, grace)
		}
	}
	if left, grace := remove(60); left < time.Minute || left > time.Hour || grace != 60 {
		t.Errorf("a grace period that is shortened to a minute: it ends in %v, and is said to be %d", left, grace)
	}
}
