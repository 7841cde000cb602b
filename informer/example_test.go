package informer_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/informer/informertest"
)

// A projection keeps only what a program needs of each object.
func ExampleProject() {
	type placement struct{ Node string }
	source := informertest.NewSource(
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
