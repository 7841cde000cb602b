package tainteviction_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/controllers/internal/looptest"
	"github.com/millrace/millrace/internal/controllers/tainteviction"
	"github.com/millrace/millrace/millracetest"
)

var taint = corev1.Taint{Key: "broken", Effect: corev1.TaintEffectNoExecute}

// stays returns how long a pod that tolerates a taint for five minutes stays on a node, if the clock that dates the
// taint is ahead of ours by skew.
func stays(t *testing.T, skew time.Duration, early bool) (stayed time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		s := looptest.New(t, millracetest.API(t))
		looptest.Create(s, "nodes", "", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		looptest.Create(s, "pods", "default", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{
			NodeName: "n", Containers: looptest.Containers(),
			Tolerations: []corev1.Toleration{{Key: taint.Key, Operator: corev1.TolerationOpExists, Effect: taint.Effect, TolerationSeconds: new(int64(300))}},
		}})
		time.Sleep(time.Hour)
		add := func() {
			looptest.Edit(s, "nodes", "", "n", func(n *corev1.Node) {
				dated := taint
				dated.TimeAdded = &metav1.Time{Time: time.Now().Add(skew)}
				n.Spec.Taints = []corev1.Taint{dated}
			})
		}
		if early {
			add()
		}
		looptest.Start(t, s.Clients(), tainteviction.Entry)
		synctest.Wait()
		if !early {
			add()
		}
		for began := time.Now(); ; time.Sleep(time.Second) {
			synctest.Wait()
			if p := looptest.All[corev1.Pod](s, "pods"); len(p) == 0 || p[0].DeletionTimestamp != nil {
				stayed = time.Since(began)
				return
			}
			if time.Since(began) > time.Hour {
				t.Fatal("it is never evicted")
			}
		}
	})
	return stayed
}

func TestAnEvictionDoesNotDependOnTheClockOfWhoeverAddedTheTaint(t *testing.T) {
	for _, skew := range []time.Duration{0, -4 * time.Minute, -time.Hour, 4 * time.Minute, time.Hour} {
		if got := stays(t, skew, false); got < 300*time.Second || got > 302*time.Second {
			t.Errorf("dated %s from now, it is evicted after %s", skew, got)
		}
	}
}

func TestATaintThatWasThereBeforeTheLoopCountsFromItsDate(t *testing.T) {
	for skew, want := range map[time.Duration]time.Duration{0: 300 * time.Second, -time.Minute: 240 * time.Second, -time.Hour: 0, time.Hour: 300 * time.Second} {
		if got := stays(t, skew, true); got < want-time.Second || got > want+2*time.Second {
			t.Errorf("dated %s from the start, it is evicted after %s, expected %s", skew, got, want)
		}
	}
}

func TestAPodThatArrivesLaterCountsFromItsArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := looptest.New(t, millracetest.API(t))
		looptest.Create(s, "nodes", "", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{taint}}})
		looptest.Create(s, "pods", "default", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{
			Containers:  looptest.Containers(),
			Tolerations: []corev1.Toleration{{Key: taint.Key, Operator: corev1.TolerationOpExists, Effect: taint.Effect, TolerationSeconds: new(int64(300))}},
		}})
		clients := s.Clients()
		ahead := 10 * time.Minute // our clock, compared with the server's, which dates the pod
		clients.Now = func() time.Time { return time.Now().Add(ahead) }
		looptest.Run(t, clients, looptest.Make(t, clients, tainteviction.Entry)...)
		synctest.Wait()
		if err := s.Kube.CoreV1().Pods("default").Bind(t.Context(), &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: "p"}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		left := func() bool {
			synctest.Wait()
			all := looptest.All[corev1.Pod](s, "pods")
			return len(all) == 0 || all[0].DeletionTimestamp != nil
		}
		time.Sleep(298 * time.Second)
		if left() {
			t.Error("it is evicted early")
		}
		time.Sleep(4 * time.Second)
		if !left() {
			t.Error("it is not evicted")
		}
	})
}
