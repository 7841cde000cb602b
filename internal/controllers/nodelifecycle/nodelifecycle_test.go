package nodelifecycle_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/controllers/internal/looptest"
	"github.com/millrace/millrace/internal/controllers/nodelifecycle"
	"github.com/millrace/millrace/internal/controllers/tainteviction"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/millracetest"
)

func TestASilentNodeIsUnreachableAndItsPodsAreEvictedAfterTheirTolerationSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3)
		c.pod("patient", "node-0", 300)
		c.pod("hasty", "node-0", 10)
		c.pod("elsewhere", "node-1", 10)
		c.renew(5*time.Minute, 0, 1, 2)
		if taints := c.node(0).Spec.Taints; len(taints) != 0 {
			t.Fatalf("a node that answers has taints %v", taints)
		}
		c.renew(40*time.Second, 1, 2)
		if c.ready(0) != corev1.ConditionTrue {
			t.Error("given up before its grace has ended")
		}
		c.renew(15*time.Second, 1, 2)
		if c.ready(0) != corev1.ConditionUnknown {
			t.Errorf("ready is %s after the grace", c.ready(0))
		}
		if keys := c.taints(0); !slices.Equal(keys, []string{"node.kubernetes.io/unreachable:NoExecute", "node.kubernetes.io/unreachable:NoSchedule"}) {
			t.Errorf("taints %v", keys)
		}
		for _, p := range looptest.All[corev1.Pod](c.server, "pods") {
			for _, condition := range p.Status.Conditions {
				if condition.Type == corev1.PodReady && (condition.Status == corev1.ConditionTrue) != (p.Name == "elsewhere") {
					t.Errorf("pod %s has ready %s", p.Name, condition.Status)
				}
			}
		}
		c.renew(30*time.Second, 1, 2)
		c.expect("elsewhere patient")
		c.renew(5*time.Minute, 1, 2)
		c.expect("elsewhere")
		c.renew(time.Minute, 0, 1, 2)
		looptest.Edit(c.server, "nodes", "", "node-0", func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
		c.renew(time.Minute, 0, 1, 2)
		if keys := c.taints(0); len(keys) != 0 {
			t.Errorf("taints of a node that is back: %v", keys)
		}
	})
}

// Who said that nobody knows whether the node is ready has given it up.
func TestASilentNodeThatIsUnknownAlreadyIsNotGivenUpOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		looptest.Edit(c.server, "nodes", "", "node-0", func(n *corev1.Node) {
			n.Status.Conditions[0].Status, n.Status.Conditions[0].Reason = corev1.ConditionUnknown, "Mine"
		})
		c.renew(2*time.Minute, 1)
		if all := c.node(0).Status.Conditions; len(all) != 1 || all[0].Reason != "Mine" {
			t.Errorf("conditions %v", all)
		}
		if keys := c.taints(0); !slices.Equal(keys, []string{"node.kubernetes.io/unreachable:NoExecute", "node.kubernetes.io/unreachable:NoSchedule"}) {
			t.Errorf("taints %v", keys)
		}
	})
}

func TestNothingIsEvictedWhenAllNodesFailAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 4)
		c.pod("pod", "node-0", 0)
		c.renew(time.Minute, 0, 1, 2, 3)
		time.Sleep(10 * time.Minute)
		if c.ready(0) != corev1.ConditionUnknown {
			t.Error("still ready")
		}
		if keys := c.taints(0); !slices.Equal(keys, []string{"node.kubernetes.io/unreachable:NoSchedule"}) {
			t.Errorf("taints %v", keys)
		}
		c.expect("pod")
	})
}

func TestANodesLabelsHaveTheirOldNamesToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 1)
		looptest.Edit(c.server, "nodes", "", "node-0", func(n *corev1.Node) {
			n.Labels = map[string]string{"kubernetes.io/arch": "arm64", "beta.kubernetes.io/arch": "other", "kubernetes.io/os": "linux", "mine": "x"}
		})
		c.renew(time.Second, 0)
		want := map[string]string{"kubernetes.io/arch": "arm64", "beta.kubernetes.io/arch": "arm64", "kubernetes.io/os": "linux", "beta.kubernetes.io/os": "linux", "mine": "x"}
		if node := looptest.All[corev1.Node](c.server, "nodes")[0]; !maps.Equal(node.Labels, want) {
			t.Errorf("labels %v", node.Labels)
		}
	})
}

func TestPressureAndCordonBecomeTaintsAndOtherTaintsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 1)
		looptest.Edit(c.server, "nodes", "", "node-0", func(n *corev1.Node) {
			n.Spec.Unschedulable = true
			n.Spec.Taints = []corev1.Taint{{Key: "mine", Effect: corev1.TaintEffectNoSchedule}}
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue})
		})
		c.renew(time.Second, 0)
		want := []string{"mine:NoSchedule", "node.kubernetes.io/memory-pressure:NoSchedule", "node.kubernetes.io/unschedulable:NoSchedule"}
		if keys := c.taints(0); !slices.Equal(keys, want) {
			t.Errorf("taints %v", keys)
		}
	})
}

func TestNodesGetNoExecuteTaintsSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 10)
		var rest []int
		for i := range 7 {
			rest = append(rest, i+3)
		}
		c.renew(time.Minute, append(rest, 0, 1, 2)...)
		c.renew(55*time.Second, rest...)
		evicting := func() int {
			n := 0
			for i := range 3 {
				if slices.Contains(c.taints(i), "node.kubernetes.io/unreachable:NoExecute") {
					n++
				}
			}
			return n
		}
		if n := evicting(); n != 1 {
			t.Errorf("%d nodes evict at once", n)
		}
		c.renew(time.Minute, rest...)
		if n := evicting(); n != 3 {
			t.Errorf("%d nodes evict after a minute", n)
		}
	})
}

// A taint that a user has made does not say when it was added.
func TestPodsAreEvictedFromANodeWithATaintOfAUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		seconds := int64(90)
		looptest.Create(c.server, "pods", "default", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "patient"}, Spec: corev1.PodSpec{
			NodeName: "node-0", Containers: looptest.Containers(),
			Tolerations: []corev1.Toleration{{Key: "mine", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds}},
		}})
		looptest.Edit(c.server, "nodes", "", "node-0", func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "mine", Effect: corev1.TaintEffectNoExecute})
		})
		c.renew(time.Minute, 0, 1)
		c.expect("patient")
		c.renew(time.Minute, 0, 1)
		c.expect("")
	})
}

func TestCancelledEvictionsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3)
		c.pod("short", "node-0", 5)
		c.pod("long", "node-0", 600)
		c.renew(2*time.Minute, 1, 2)
		c.expect("long")
		looptest.Edit(c.server, "nodes", "", "node-0", func(n *corev1.Node) {
			n.Status.Conditions[0].Status, n.Status.Conditions[0].LastHeartbeatTime = corev1.ConditionTrue, metav1.Now()
		})
		c.renew(time.Minute, 0, 1, 2)
		if err := c.clients.Kube.CoreV1().Nodes().Delete(t.Context(), "node-2", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		c.renew(20*time.Minute, 0, 1)
		c.expect("long")
		var said []string
		for _, e := range looptest.All[corev1.Event](c.server, "events") {
			switch {
			case e.Reason == "TaintManagerEviction":
				said = append(said, e.Message)
			case e.Reason == "RemovingNode" && e.InvolvedObject.UID == "node-2":
				t.Error("the event of a node that has gone names no uid")
			}
		}
		slices.Sort(said)
		if want := []string{"Cancelling deletion of Pod default/long", "Marking for deletion Pod default/short"}; !slices.Equal(said, want) {
			t.Errorf("it was said %q, expected %q", said, want)
		}
	})
}

// A pod that is being deleted, or has ended, is in the way of whoever gave the node its taint as any other is.
func TestPodsThatEndAreEvictedOnceAsWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		for _, name := range []string{"ending", "ended"} {
			looptest.Create(c.server, "pods", "default", &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{"example.com/mine"}}, Spec: corev1.PodSpec{NodeName: "node-0", Containers: looptest.Containers()},
				Status: corev1.PodStatus{Phase: map[string]corev1.PodPhase{"ending": corev1.PodRunning, "ended": corev1.PodSucceeded}[name]},
			})
		}
		if err := c.clients.Kube.CoreV1().Pods("default").Delete(t.Context(), "ending", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, taint := range []corev1.Taint{{Key: "mine", Effect: corev1.TaintEffectNoExecute}, {Key: "other", Effect: corev1.TaintEffectNoSchedule}, {Key: "third", Effect: corev1.TaintEffectNoExecute}} {
			looptest.Edit(c.server, "nodes", "", "node-0", func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, taint) })
			c.renew(10*time.Second, 0, 1)
		}
		for _, p := range looptest.All[corev1.Pod](c.server, "pods") {
			if len(p.Status.Conditions) != 1 || p.Status.Conditions[0].Reason != "DeletionByTaintManager" || p.DeletionTimestamp == nil {
				t.Errorf("pod %s is not evicted: %v", p.Name, p.Status.Conditions)
			}
		}
		c.expectSaid("Marking for deletion Pod default/ended", "Marking for deletion Pod default/ending")
	})
}

func TestAnEvictionIsCancelledWhenThePodIsGoneOrMustGoAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 4)
		c.pod("removed", "node-0", 600)
		c.pod("hurried", "node-0", 600)
		c.pod("homeless", "node-1", 600)
		c.renew(2*time.Minute, 2, 3)
		remove := func(name string) {
			if err := c.clients.Kube.CoreV1().Pods("default").Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
				t.Fatal(err)
			}
			c.renew(10*time.Second, 2, 3)
		}
		remove("removed")
		looptest.Edit(c.server, "nodes", "", "node-0", func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "mine", Effect: corev1.TaintEffectNoExecute})
		})
		if err := c.clients.Kube.CoreV1().Nodes().Delete(t.Context(), "node-1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		c.renew(10*time.Second, 2, 3)
		c.expect("homeless")
		remove("homeless")
		c.expectSaid("Cancelling deletion of Pod default/homeless", "Cancelling deletion of Pod default/hurried", "Cancelling deletion of Pod default/removed", "Marking for deletion Pod default/hurried")
	})
}

// expectSaid compares what was said of evictions, as often as it was said.
func (c *cluster) expectSaid(want ...string) {
	c.t.Helper()
	var said []string
	for _, e := range looptest.All[corev1.Event](c.server, "events") {
		if e.Reason == "TaintManagerEviction" {
			said = append(said, slices.Repeat([]string{e.Message}, int(max(1, e.Count)))...)
		}
	}
	slices.Sort(said)
	if !slices.Equal(said, want) {
		c.t.Errorf("it was said %q, expected %q", said, want)
	}
}

func TestOptionsDecideWhichPodsAreEvicted(t *testing.T) {
	for _, c := range []struct {
		why     string
		options nodelifecycle.Options
		failing int // of eight
		evicted int
	}{
		{"most of a small zone fails", nodelifecycle.Options{}, 5, 0},
		{"most of a zone fails that counts as large", nodelifecycle.Options{LargeZone: 7, ReducedRate: 1}, 5, 5},
		{"every zone is large, and nobody is to go", nodelifecycle.Options{LargeZone: -1, ReducedRate: -1}, 5, 0},
		{"that is not most yet", nodelifecycle.Options{Unhealthy: 0.7}, 5, 5},
		{"few fail", nodelifecycle.Options{}, 2, 2},
		{"few fail, and nobody is to go", nodelifecycle.Options{Rate: -1}, 2, 0},
		{"nobody is given up yet", nodelifecycle.Options{Grace: time.Hour}, 2, 0},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := startWith(t, c.options, 8)
				alive := []int{0, 1, 2, 3, 4, 5, 6, 7}[c.failing:]
				cluster.renew(10*time.Minute, alive...)
				evicted := 0
				for i := range c.failing {
					if slices.Contains(cluster.taints(i), corev1.TaintNodeUnreachable+":NoExecute") {
						evicted++
					}
				}
				if evicted != c.evicted {
					t.Errorf("pods of %d nodes are evicted, expected of %d", evicted, c.evicted)
				}
			})
		})
	}
}

func TestALeaseThatTheCacheDoesNotShowYetKeepsItsNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		c.renew(time.Minute, 0, 1)
		c.server.HoldWatches(true) // renewals do not reach the loop
		c.renew(10*time.Minute, 0, 1)
		c.server.HoldWatches(false)
		c.renew(time.Minute, 0, 1)
		for i := range 2 {
			if state := c.ready(i); state != corev1.ConditionTrue {
				t.Errorf("node %d is given up: %s", i, state)
			}
		}
	})
}

func TestTheGracePeriodStartsAgainAfterTheAPIWasUnavailable(t *testing.T) {
	for _, outage := range []time.Duration{4 * time.Minute, 10 * time.Minute, time.Hour} {
		t.Run(outage.String(), func(t *testing.T) { testOutage(t, outage) })
	}
}

func testOutage(t *testing.T, outage time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3)
		c.renew(time.Minute, 0, 1, 2)
		var away atomic.Bool
		away.Store(true)
		c.server.Intercept(func(*http.Request) error {
			if away.Load() {
				return errors.New("no way to the API")
			}
			return nil
		}, nil)
		c.server.DropWatches()
		time.Sleep(outage) // kubelets cannot renew their leases either
		away.Store(false)
		time.Sleep(20 * time.Second)
		c.renew(2*time.Minute, 0, 1) // the third node is really silent
		for i, want := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionUnknown} {
			if state := c.ready(i); state != want {
				t.Errorf("node %d is %s, expected %s", i, state, want)
			}
		}
	})
}

type cluster struct {
	t       *testing.T
	server  *looptest.Server
	clients *loop.Clients
}

func start(t *testing.T, nodes int) *cluster { return startWith(t, nodelifecycle.Options{}, nodes) }

func startWith(t *testing.T, o nodelifecycle.Options, nodes int) *cluster {
	server := looptest.New(t, millracetest.API(t))
	c := &cluster{t, server, server.Clients()}
	for i := range nodes {
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i)},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}},
		}
		looptest.Create(server, "nodes", "", node)
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
		if _, err := c.clients.Kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	looptest.Start(t, c.clients, o.Entry(), tainteviction.Entry)
	synctest.Wait()
	return c
}

// renew lets time pass while some nodes renew their leases.
func (c *cluster) renew(d time.Duration, nodes ...int) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(5 * time.Second) {
		for _, i := range nodes {
			looptest.Edit(c.server, "leases", corev1.NamespaceNodeLease, fmt.Sprint("node-", i), func(l *coordinationv1.Lease) {
				now := metav1.NowMicro()
				l.Spec.RenewTime = &now
			})
		}
	}
	synctest.Wait()
}

func (c *cluster) pod(name, node string, seconds int64) {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{NodeName: node, Containers: looptest.Containers(), Tolerations: []corev1.Toleration{{
			Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
		}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	looptest.Create(c.server, "pods", "default", p)
}

func (c *cluster) node(i int) *corev1.Node {
	for _, n := range looptest.All[corev1.Node](c.server, "nodes") {
		if n.Name == fmt.Sprint("node-", i) {
			return n
		}
	}
	return nil
}

func (c *cluster) ready(i int) corev1.ConditionStatus { return c.node(i).Status.Conditions[0].Status }

func (c *cluster) taints(i int) []string {
	var out []string
	for _, t := range c.node(i).Spec.Taints {
		out = append(out, t.Key+":"+string(t.Effect))
	}
	slices.Sort(out)
	return out
}

// expect compares the names of the pods that were not deleted.
func (c *cluster) expect(names string) {
	c.t.Helper()
	synctest.Wait()
	var got []string
	for _, p := range looptest.All[corev1.Pod](c.server, "pods") {
		if p.DeletionTimestamp == nil {
			got = append(got, p.Name)
		}
	}
	slices.Sort(got)
	if fmt.Sprint(got) != "["+names+"]" {
		c.t.Errorf("pods %v, expected [%s]", got, names)
	}
}
