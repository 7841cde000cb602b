package scheduler_test

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/scheduler"
)

// A scheduler that spreads the pods of noisy programs: it prefers nodes with few pods for them.
func Example() {
	clients := loop.ClientsFor(fake.NewClientset())
	quiet := scheduler.New(clients, scheduler.Options{Name: "quiet-scheduler", Rules: []scheduler.Rule{{
		Name:   "Quiet",
		Read:   func(pod *corev1.Pod) string { return pod.Labels["noisy"] },
		Score:  func(_ string, node scheduler.Node) int64 { return 100 - int64(node.Pods()) },
		Weight: 3,
	}}})
	_ = quiet // loop.Run(ctx, clients, quiet)
}
