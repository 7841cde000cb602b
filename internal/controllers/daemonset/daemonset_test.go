package daemonset_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/millrace/millrace/internal/controllers/daemonset"
	"github.com/millrace/millrace/internal/controllers/internal/looptest"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/millracetest"
)

func TestEachSuitableNodeHasOnePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 4)
		c.taint(2, corev1.TaintEffectNoSchedule)
		c.settle() // a pod that is made before the loop knows of the taint may stay
		c.create(func(ds *appsv1.DaemonSet) {})
		c.settle()
		c.expect("node-0 node-1 node-3")
		c.taint(1, corev1.TaintEffectNoSchedule) // existing pods may stay
		c.taint(3, corev1.TaintEffectNoExecute)
		c.settle()
		c.expect("node-0 node-1")
		c.node(4)
		c.settle()
		c.expect("node-0 node-1 node-4")
		s := c.set().Status
		if s.DesiredNumberScheduled != 2 || s.CurrentNumberScheduled != 2 || s.NumberMisscheduled != 1 || s.NumberAvailable != 2 || s.NumberUnavailable != 0 || s.ObservedGeneration != 1 {
			t.Errorf("status %+v", s)
		}
	})
}

func TestAPodIsBoundToItsNodeAndToleratesProblemsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 1)
		c.create(func(ds *appsv1.DaemonSet) { ds.Spec.Template.Spec.HostNetwork = true })
		c.settle()
		pod := c.pods()[0]
		var keys []string
		for _, toleration := range pod.Spec.Tolerations {
			keys = append(keys, strings.TrimPrefix(toleration.Key, "node.kubernetes.io/")+":"+string(toleration.Effect))
		}
		want := "not-ready:NoExecute unreachable:NoExecute disk-pressure:NoSchedule memory-pressure:NoSchedule pid-pressure:NoSchedule unschedulable:NoSchedule network-unavailable:NoSchedule"
		if strings.Join(keys, " ") != want {
			t.Errorf("tolerations %v", keys)
		}
		revisions := c.revisions()
		if len(revisions) != 1 || pod.Labels["controller-revision-hash"] != revisions[0].Labels["controller-revision-hash"] || pod.Labels["pod-template-generation"] != "1" {
			t.Errorf("labels %v, revisions %v", pod.Labels, revisions)
		}
		term := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0]
		if len(term.MatchFields) != 1 || term.MatchFields[0].Values[0] != "node-0" {
			t.Errorf("affinity %+v", term)
		}
		c.event("SuccessfulCreate", "Created pod: "+pod.Name)
	})
}

func TestARollingUpdateRespectsMaxUnavailable(t *testing.T) {
	for _, most := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			c := start(t, 8)
			c.create(func(ds *appsv1.DaemonSet) { bounds(ds, 0, most) })
			c.settle()
			stop := looptest.Observe(c.server, func() {
				if ready := c.ready(); ready < 8-most {
					t.Errorf("%d pods are ready", ready)
				}
			})
			c.image("image:2")
			c.settle()
			stop()
			c.expectImage("image:2", 8)
			if s := c.set().Status; s.UpdatedNumberScheduled != 8 || s.NumberAvailable != 8 {
				t.Errorf("status %+v", s)
			}
		})
	}
}

func TestAnUpdateWithSurgeNeverLacksAPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 6)
		c.create(func(ds *appsv1.DaemonSet) { bounds(ds, 2, 0); ds.Spec.MinReadySeconds = 5 })
		c.settle()
		stop := looptest.Observe(c.server, func() {
			// As in Kubernetes, a pod that is being deleted does not count: the next node need not wait until it has
			// gone.
			gone := func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil }
			if ready, pods := c.ready(), len(slices.DeleteFunc(c.pods(), gone)); ready < 6 || pods > 8 {
				t.Errorf("%d pods, of which %d are ready", pods, ready)
			}
		})
		c.image("image:2")
		c.settle()
		stop()
		c.expectImage("image:2", 6)
	})
}

func TestOnDeleteWaitsUntilAPodIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3)
		c.create(func(ds *appsv1.DaemonSet) {
			ds.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
		})
		c.settle()
		c.image("image:2")
		c.settle()
		c.expectImage("image", 3)
		_ = c.server.Kube.CoreV1().Pods("default").Delete(t.Context(), c.pods()[0].Name, metav1.DeleteOptions{})
		c.settle()
		c.expectImage("image:2", 1)
	})
}

func TestATemplateThatComesBackGetsItsRevisionAndOldRevisionsAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 1)
		c.create(func(ds *appsv1.DaemonSet) { two := int32(2); ds.Spec.RevisionHistoryLimit = &two })
		c.settle()
		first := c.revisions()[0].Name
		for _, image := range []string{"image:2", "image:3", "image"} {
			c.image(image)
			c.settle()
		}
		for _, r := range c.revisions() {
			if r.Name == first && r.Revision != 4 {
				t.Errorf("the first revision has number %d", r.Revision)
			}
		}
		if n := len(c.revisions()); n != 3 {
			t.Errorf("%d revisions", n)
		}
		c.image("image:5")
		c.settle()
		c.image("image:6")
		c.settle()
		if n := len(c.revisions()); n != 3 {
			t.Errorf("%d revisions are kept: the current one and two more were asked for", n)
		}
	})
}

func TestAFailedPodIsReplacedWithGrowingDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := prepare(t, 1)
		c.nodes.Settle = func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
		c.run()
		c.create(func(ds *appsv1.DaemonSet) {})
		time.Sleep(10 * time.Minute)
		failures := 0
		for _, e := range looptest.All[corev1.Event](c.server, "events") {
			if e.Reason == "FailedDaemonPod" {
				failures += int(e.Count)
			}
		}
		if failures < 5 || failures > 15 {
			t.Errorf("%d pods have been replaced in ten minutes", failures)
		}
	})
}

// Nodes come, go and change, users change their minds, loops crash at any write, watches are cut, delayed or expired:
// in the end each suitable node has one pod of the last template.
func TestWhateverHappensEachSuitableNodeHasItsPod(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { converge(t, seed) })
		})
	}
}

func converge(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	c := prepare(t, 5)
	lives := looptest.StartLives(t, c.server, rand.New(rand.NewPCG(seed, 2)), daemonset.Entry)
	looptest.Run(t, c.clients, c.nodes)
	c.create(func(ds *appsv1.DaemonSet) { bounds(ds, int(seed%2)*2, 1-int(seed%2)) })
	alive := map[int]bool{0: true, 1: true, 2: true, 3: true, 4: true}
	image := "image"
	for range 40 {
		i := random.IntN(10)
		switch random.IntN(8) {
		case 0, 1:
			if alive[i] {
				_ = c.server.Kube.CoreV1().Nodes().Delete(t.Context(), fmt.Sprint("node-", i), metav1.DeleteOptions{})
				c.lose(fmt.Sprint("node-", i))
			} else {
				c.node(i)
			}
			alive[i] = !alive[i]
		case 2, 3:
			image = fmt.Sprint("image:", random.IntN(4))
			c.image(image)
		case 4:
			if pods := c.pods(); len(pods) > 0 {
				_ = c.server.Kube.CoreV1().Pods("default").Delete(t.Context(), pods[random.IntN(len(pods))].Name, metav1.DeleteOptions{})
			}
		case 5:
			c.server.DropWatches()
		case 6:
			c.server.Compact()
		case 7:
			c.server.HoldWatches(random.IntN(2) == 0)
		}
		time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
	}
	c.server.HoldWatches(false)
	if lives.Calm() == 0 {
		t.Error("nothing crashed: the test shows nothing")
	}
	time.Sleep(20 * time.Minute)
	var want []string
	for i := range 10 {
		if alive[i] {
			want = append(want, fmt.Sprint("node-", i))
		} else {
			c.lose(fmt.Sprint("node-", i)) // as the pod garbage collector does
		}
	}
	time.Sleep(time.Minute)
	c.expect(strings.Join(want, " "))
	c.expectImage(image, len(want))
}

type cluster struct {
	t       *testing.T
	server  *looptest.Server
	clients *loop.Clients
	nodes   *looptest.Nodes
}

func prepare(t *testing.T, nodes int) *cluster {
	server := looptest.New(t, millracetest.API(t))
	c := &cluster{t, server, server.Clients(), &looptest.Nodes{Server: server}}
	for i := range nodes {
		c.node(i)
	}
	return c
}

func (c *cluster) run() {
	looptest.Run(c.t, c.clients, append(looptest.Make(c.t, c.clients, daemonset.Entry), c.nodes)...)
}

func start(t *testing.T, nodes int) *cluster {
	c := prepare(t, nodes)
	c.run()
	return c
}

func (c *cluster) node(i int) {
	c.t.Helper()
	looptest.Create(c.server, "nodes", "", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i)}})
	looptest.Edit(c.server, "nodes", "", fmt.Sprint("node-", i), func(n *corev1.Node) { n.Spec.Taints = nil }) // it is ready
}

func (c *cluster) taint(i int, effect corev1.TaintEffect) {
	looptest.Edit(c.server, "nodes", "", fmt.Sprint("node-", i), func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "mine", Effect: effect})
	})
}

// lose deletes the pods of a deleted node.
func (c *cluster) lose(node string) {
	none := int64(0)
	for _, p := range c.pods() {
		if p.Spec.NodeName == node {
			_ = c.server.Kube.CoreV1().Pods("default").Delete(c.t.Context(), p.Name, metav1.DeleteOptions{GracePeriodSeconds: &none})
		}
	}
}

func bounds(ds *appsv1.DaemonSet, surge, unavailable int) {
	s, u := intstr.FromInt(surge), intstr.FromInt(unavailable)
	ds.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxSurge: &s, MaxUnavailable: &u}
}

func (c *cluster) create(edit func(*appsv1.DaemonSet)) {
	c.t.Helper()
	labels := map[string]string{"app": "agent"}
	ds := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "agent"},
		Spec: appsv1.DaemonSetSpec{
			Selector:       &metav1.LabelSelector{MatchLabels: labels},
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType},
			Template:       corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: looptest.Containers()}},
		},
	}
	edit(ds)
	if _, err := c.server.Kube.AppsV1().DaemonSets("default").Create(c.t.Context(), ds, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) image(image string) {
	looptest.Edit(c.server, "daemonsets", "default", "agent", func(ds *appsv1.DaemonSet) { ds.Spec.Template.Spec.Containers[0].Image = image })
}

func (c *cluster) settle() { time.Sleep(5 * time.Minute); synctest.Wait() }

func (c *cluster) set() *appsv1.DaemonSet {
	return looptest.All[appsv1.DaemonSet](c.server, "daemonsets")[0]
}

func (c *cluster) pods() []*corev1.Pod { return looptest.All[corev1.Pod](c.server, "pods") }

func (c *cluster) revisions() []*appsv1.ControllerRevision {
	return looptest.All[appsv1.ControllerRevision](c.server, "controllerrevisions")
}

func (c *cluster) ready() (n int) {
	for _, p := range c.pods() {
		if p.DeletionTimestamp == nil && looptest.Ready(p) {
			n++
		}
	}
	return n
}

// expect compares the nodes of all pods.
func (c *cluster) expect(nodes string) {
	c.t.Helper()
	var got []string
	for _, p := range c.pods() {
		got = append(got, p.Spec.NodeName)
	}
	slices.Sort(got)
	if strings.Join(got, " ") != nodes {
		c.t.Errorf("pods on %v, expected %s", got, nodes)
	}
}

func (c *cluster) expectImage(image string, count int) {
	c.t.Helper()
	n := 0
	for _, p := range c.pods() {
		if p.Spec.Containers[0].Image == image {
			n++
		}
	}
	if n != count {
		c.t.Errorf("%d pods have %s, expected %d", n, image, count)
	}
}

func (c *cluster) event(reason, message string) {
	c.t.Helper()
	for _, e := range looptest.All[corev1.Event](c.server, "events") {
		if e.Reason == reason && e.Message == message && e.Source.Component == "daemonset-controller" {
			return
		}
	}
	c.t.Errorf("no event %s: %s", reason, message)
}
