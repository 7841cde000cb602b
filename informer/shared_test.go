package informer_test

import (
	"context"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/informer/informertest"
)

func pod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// start runs an informer for the rest of a test.
func start[T any](t *testing.T, s *informer.Shared[T]) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestHandlerHearsTheInitialListAndWhatChangesAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := informertest.NewSource(pod("a", "one"))
		pods := informer.New(source, informer.Options[*corev1.Pod]{})
		var heard []string
		reg := pods.Handle(informer.Handler[*corev1.Pod]{
			Added: func(p *corev1.Pod, initial bool) {
				if initial {
					heard = append(heard, "initial "+p.Name)
				} else {
					heard = append(heard, "added "+p.Name)
				}
			},
			Updated: func(old, new *corev1.Pod) {
				heard = append(heard, "updated "+old.Spec.NodeName+" to "+new.Spec.NodeName)
			},
			Deleted: func(last *corev1.Pod, unknown bool) { heard = append(heard, "deleted "+last.Name) },
		})
		start(t, pods)
		if err := reg.Synced(t.Context()); err != nil {
			t.Fatal(err)
		}
		source.Add(pod("a", "two"))
		synctest.Wait()
		bound := pod("a", "two")
		bound.Spec.NodeName = "n1"
		rv := source.Modify(bound).ResourceVersion
		if err := pods.WaitFor(t.Context(), rv); err != nil {
			t.Fatal(err)
		}
		if got, _ := pods.Get("a", "two"); got == nil || got.Spec.NodeName != "n1" {
			t.Errorf("after WaitFor the cache has %v", got)
		}
		synctest.Wait()
		source.Delete(bound)
		synctest.Wait()
		want := []string{"initial one", "added two", "updated  to n1", "deleted two"}
		if len(heard) != len(want) {
			t.Fatalf("heard %q, want %q", heard, want)
		}
		for i := range want {
			if heard[i] != want[i] {
				t.Errorf("heard %q, want %q", heard, want)
			}
		}
	})
}
