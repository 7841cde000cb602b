package informer_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/informer"
)

// A controller that deletes whatever appears. The source is in memory, with the semantics of a server; a real program
// would write informer.For(clientset.CoreV1().Pods("default")) in its place.
func Example() {
	source := informer.NewFakeSource[*corev1.Pod]()

	// What the controller knows. The queue compares it with what the server has, to notice what vanishes unseen.
	store := informer.NewStore(informer.StoreOptions[*corev1.Pod]{})
	queue := informer.NewDeltaFIFO(informer.DeltaFIFOOptions[*corev1.Pod]{Known: store})

	deleted := make(chan string, 10)
	controller := informer.NewController(informer.ControllerConfig[*corev1.Pod]{
		Source: source,
		Queue:  queue,
		// Only the newest state counts: a control loop works from what is, not from how it came to be.
		Process: func(deltas informer.Deltas[*corev1.Pod], _ bool) error {
			newest := deltas.Newest()
			if newest.Type == informer.DeltaDeleted {
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

// A projection keeps only what a program needs of each object.
func ExampleProject() {
	type placement struct{ Node string }
	source := informer.NewFakeSource(
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-1"}, Spec: corev1.PodSpec{NodeName: "n1"}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-2"}, Spec: corev1.PodSpec{NodeName: "n2"}},
	)
	placements := informer.Project(source, func(pod *corev1.Pod) placement {
		return placement{Node: pod.Spec.NodeName}
	}, informer.Options[placement]{})

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- placements.Run(ctx) }()
	if err := placements.Synced(ctx); err != nil {
		fmt.Println(err)
	}
	for key, placed := range placements.All() {
		fmt.Println(key, "is on", placed.Node)
	}
	cancel()
	<-done

	// Output:
	// default/web-1 is on n1
	// default/web-2 is on n2
}
