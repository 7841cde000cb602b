package delta_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/informer/delta"
	"github.com/millrace/millrace/informer/informertest"
)

// A controller that deletes every object that appears. The source is in memory, with the semantics of a server; a real
// program would write informer.For(clientset.CoreV1().Pods("default")) instead.
func Example() {
	source := informertest.NewSource[*corev1.Pod]()

	// The objects that the controller knows. The queue compares them with complete lists, to find deletions that the
	// watch did not report.
	store := informer.NewStore(informer.StoreOptions[*corev1.Pod]{})
	queue := delta.NewFIFO(delta.FIFOOptions[*corev1.Pod]{KnownObjects: store})

	deleted := make(chan string, 10)
	controller := delta.NewController(delta.Config[*corev1.Pod]{
		Source: source,
		Queue:  queue,
		// Only the newest state counts: a control loop works from the current state, not from the changes that led to
		// it.
		Process: func(deltas delta.Deltas[*corev1.Pod], _ bool) error {
			newest := deltas.Newest()
			if newest.Type == delta.Deleted {
				deleted <- newest.Object.Name
				return store.Delete(newest.Object)
			}
			if err := store.Update(newest.Object); err != nil {
				return err
			}
			source.Delete(newest.Object) // a write to the server; the deletion comes back as a change
			return nil
		},
		RetryOnError: true,
	})

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- controller.Run(ctx) }()
	for _, name := range []string{"a-hello", "b-controller", "c-framework"} {
		source.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}})
		fmt.Println("deleted", <-deleted)
	}
	cancel()
	fmt.Println("ended with", <-done, "and", store.Len(), "objects")

	// Output:
	// deleted a-hello
	// deleted b-controller
	// deleted c-framework
	// ended with <nil> and 0 objects
}
