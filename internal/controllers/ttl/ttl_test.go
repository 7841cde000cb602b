package ttl_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/controllers/internal/looptest"
	"github.com/millrace/millrace/internal/controllers/ttl"
	"github.com/millrace/millrace/millracetest"
)

func TestNodesGetTheTTLForTheSizeOfTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := looptest.New(t, millracetest.API(t))
		looptest.Start(t, s.Clients(), ttl.Entry)
		add := func(from, to int) {
			for i := from; i < to; i++ {
				looptest.Create(s, "nodes", "", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)}})
			}
		}
		expect := func(want string) {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
			for _, n := range looptest.All[corev1.Node](s, "nodes") {
				if got := n.Annotations["node.alpha.kubernetes.io/ttl"]; got != want {
					t.Fatalf("node %s has %q, expected %q", n.Name, got, want)
				}
			}
		}
		remove := func(from, to int) {
			for i := from; i < to; i++ {
				if err := s.Kube.CoreV1().Nodes().Delete(t.Context(), fmt.Sprint("n", i), metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		add(0, 100)
		expect("0")
		add(100, 101)
		expect("15")
		remove(95, 101)
		expect("15") // still within the overlap
		remove(89, 95)
		expect("0")
	})
}
