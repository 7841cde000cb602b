package millracetest_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/millracetest"
)

var t *testing.T // the argument of a test

func ExampleStart() {
	cluster := millracetest.Start(t, millrace.Options{Nodes: 3})
	nodes, err := millracetest.Clientset(t, cluster).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d nodes", len(nodes.Items))
}

func ExampleWait() {
	kube := millracetest.Clientset(t, millracetest.Start(t, millrace.Options{Nodes: 1}))
	node := millracetest.Wait(t, kube.CoreV1().Nodes(), "node-0", func(n *corev1.Node) bool { return !n.Spec.Unschedulable })
	t.Logf("%s is there", node.Name)
}
