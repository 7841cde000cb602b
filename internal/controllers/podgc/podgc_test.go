package podgc_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/controllers/internal/looptest"
	"github.com/millrace/millrace/internal/controllers/podgc"
	"github.com/millrace/millrace/millracetest"
)

func pod(s *looptest.Server, name, node string) {
	looptest.Create(s, "pods", "default", &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{"example.com/seen"}}, Spec: corev1.PodSpec{NodeName: node, Containers: looptest.Containers()},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	})
}

func phase(s *looptest.Server, name string) string {
	for _, p := range looptest.All[corev1.Pod](s, "pods") {
		switch {
		case p.Name != name:
		case p.DeletionGracePeriodSeconds != nil && *p.DeletionGracePeriodSeconds == 0:
			return string(p.Status.Phase) + ", deleted at once"
		default:
			return string(p.Status.Phase)
		}
	}
	return "gone"
}

func pass() {
	time.Sleep(5 * time.Minute)
	synctest.Wait()
}

func TestWhatTheCacheDoesNotShowYetIsNotOverruled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := looptest.New(t, millracetest.API(t))
		taint := corev1.Taint{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}
		looptest.Create(s, "nodes", "", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "back"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{taint}}})
		looptest.Start(t, s.Clients(), podgc.Options{}.Entry())
		pod(s, "ends", "vanished")
		pod(s, "stuck", "vanished")
		pod(s, "leaves", "back")
		time.Sleep(time.Second)
		s.HoldWatchesOf("pods")
		looptest.Edit(s, "pods", "default", "ends", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
		pass()
		if got := phase(s, "ends"); got != "Succeeded" {
			t.Errorf("a pod that has succeeded is %s", got)
		}
		if got := phase(s, "stuck"); got != "Failed, deleted at once" {
			t.Errorf("a pod of a node that is gone is %s", got)
		}
		s.HoldWatchesOf("")
		pass()
		if got := phase(s, "ends"); got != "Succeeded, deleted at once" {
			t.Errorf("later, the pod that has succeeded is %s", got)
		}

		s.HoldWatchesOf("nodes")
		looptest.Edit(s, "nodes", "", "back", func(n *corev1.Node) { n.Spec.Taints = nil })
		if err := s.Kube.CoreV1().Pods("default").Delete(t.Context(), "leaves", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		pass()
		if got := phase(s, "leaves"); got != "Running" {
			t.Errorf("a pod of a node that is in service again is %s", got)
		}
		looptest.Edit(s, "nodes", "", "back", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{taint} })
		s.HoldWatchesOf("")
		pass()
		if got := phase(s, "leaves"); got != "Failed, deleted at once" {
			t.Errorf("a pod of a node that is out of service is %s", got)
		}
	})
}
