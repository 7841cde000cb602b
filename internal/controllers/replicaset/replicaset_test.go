package replicaset_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/controllers/internal/looptest"
	"github.com/millrace/millrace/internal/controllers/replicaset"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/millracetest"
)

func TestMatchingPodsAreAdoptedAndOthersReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.pod("orphan", func(*corev1.Pod) {})
		c.pod("finished", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
		c.create(3)
		c.settle()
		if p := c.find("orphan"); metav1.GetControllerOf(p) == nil {
			t.Error("the orphan was not adopted")
		}
		if p := c.find("finished"); metav1.GetControllerOf(p) != nil {
			t.Error("a finished pod was adopted")
		}
		if n := len(c.pods()); n != 4 {
			t.Errorf("%d pods", n)
		}
		looptest.Edit(c.server, "pods", "default", "orphan", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "other"} })
		c.settle()
		if p := c.find("orphan"); metav1.GetControllerOf(p) != nil {
			t.Error("a pod that matches no longer was not let go")
		}
		if s := c.set().Status; s.Replicas != 3 || s.AvailableReplicas != 3 || s.FullyLabeledReplicas != 3 {
			t.Errorf("status %+v", s)
		}
	})
}

func TestThousandsOfOrphansAreAdoptedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := prepare(t)
		const many = 3_000
		for i := range many {
			c.pod(fmt.Sprintf("orphan-%05d", i), func(*corev1.Pod) {})
		}
		var patches, creations atomic.Int32
		c.server.Intercept(func(r *http.Request) error {
			switch {
			case r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/pods/"):
				patches.Add(1)
			case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/pods"):
				creations.Add(1)
			}
			return nil
		}, nil)
		looptest.Start(t, c.clients, replicaset.Entry) // the pods need not run
		c.create(many)
		c.settle()
		if patches.Load() != many || creations.Load() != 0 {
			t.Errorf("%d adoptions and %d creations for %d orphans", patches.Load(), creations.Load(), many)
		}
		if s := c.set().Status; s.Replicas != many {
			t.Errorf("status %+v", s)
		}
	})
}

func TestPodsAreAvailableWhenTheyWereReadyLongEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.create(2, func(rs *appsv1.ReplicaSet) { rs.Spec.MinReadySeconds = 30 })
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if s := c.set().Status; s.ReadyReplicas != 2 || s.AvailableReplicas != 0 {
			t.Errorf("status %+v", s)
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if s := c.set().Status; s.AvailableReplicas != 2 {
			t.Errorf("status %+v", s)
		}
	})
}

func TestRejectedPodsAreRetriedSlowlyAndReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := prepare(t)
		var tries atomic.Int32
		var open atomic.Bool
		c.server.Intercept(func(r *http.Request) error {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/pods") && !open.Load() {
				tries.Add(1)
				return fmt.Errorf("the quota is used up")
			}
			return nil
		}, nil)
		c.run()
		c.create(100)
		time.Sleep(time.Second)
		synctest.Wait()
		if n := tries.Load(); n > 20 {
			t.Errorf("%d tries in the first second", n)
		}
		conditions := c.set().Status.Conditions
		if len(conditions) != 1 || conditions[0].Type != appsv1.ReplicaSetReplicaFailure || conditions[0].Reason != "FailedCreate" {
			t.Errorf("conditions %+v", conditions)
		}
		open.Store(true)
		c.settle()
		if s := c.set().Status; s.ReadyReplicas != 100 || len(s.Conditions) != 0 {
			t.Errorf("status %+v", s)
		}
	})
}

func TestScalingDownDeletesTheLeastUsefulPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.create(5)
		c.settle()
		kept := c.pods()[2].Name
		looptest.Edit(c.server, "pods", "default", kept, func(p *corev1.Pod) {
			p.Annotations = map[string]string{corev1.PodDeletionCost: "100"}
		})
		c.settle() // pods and sets have separate watches, so their changes may arrive in another order
		looptest.Edit(c.server, "replicasets", "default", "web", func(rs *appsv1.ReplicaSet) { *rs.Spec.Replicas = 1 })
		c.settle()
		if pods := c.pods(); len(pods) != 1 || pods[0].Name != kept {
			t.Errorf("%d pods, the first is %s, expected %s", len(pods), pods[0].Name, kept)
		}
	})
}

// There is never one pod too many, not even for a moment: with lost answers, crashes at any write, and a cache that is
// stuck.
func TestNeverCreatesTwiceWhateverItsCacheShows(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { neverTwice(t, seed) })
		})
	}
}

func neverTwice(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	c := prepare(t)
	faults := c.server.Faults(rand.New(rand.NewPCG(seed, 2)))
	lives := looptest.StartLives(t, c.server, rand.New(rand.NewPCG(seed, 3)), replicaset.Entry)
	c.create(40)
	stop := looptest.Observe(c.server, func() {
		if n := len(c.pods()); n > 40 {
			t.Errorf("%d pods", n)
		}
	})
	faults.Store(true)
	for range 20 {
		c.server.HoldWatches(random.IntN(3) > 0)
		if random.IntN(3) == 0 {
			c.server.DropWatches()
		}
		time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
	}
	faults.Store(false)
	c.server.HoldWatches(false)
	lives.Calm()
	time.Sleep(20 * time.Minute)
	stop()
	if n := len(c.pods()); n != 40 {
		t.Errorf("%d pods in the end", n)
	}
}

type cluster struct {
	t       *testing.T
	server  *looptest.Server
	clients *loop.Clients
}

func prepare(t *testing.T) *cluster {
	server := looptest.New(t, millracetest.API(t))
	return &cluster{t, server, server.Clients()}
}

func (c *cluster) run() {
	looptest.Run(c.t, c.clients, append(looptest.Make(c.t, c.clients, replicaset.Entry), &looptest.Nodes{Server: c.server, Count: 3})...)
}

func start(t *testing.T) *cluster {
	c := prepare(t)
	c.run()
	return c
}

func setOf(replicas int32) *appsv1.ReplicaSet {
	labels := map[string]string{"app": "web"}
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: looptest.Containers()}},
		},
	}
}

func (c *cluster) create(replicas int32, edits ...func(*appsv1.ReplicaSet)) {
	c.t.Helper()
	rs := setOf(replicas)
	for _, edit := range edits {
		edit(rs)
	}
	if _, err := c.clients.Kube.AppsV1().ReplicaSets("default").Create(c.t.Context(), rs, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) pod(name string, edit func(*corev1.Pod)) {
	c.t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "web"}}, Spec: corev1.PodSpec{Containers: looptest.Containers()}}
	edit(p)
	looptest.Create(c.server, "pods", "default", p)
}

func (c *cluster) settle() { time.Sleep(30 * time.Minute); synctest.Wait() }

func (c *cluster) set() *appsv1.ReplicaSet {
	return looptest.All[appsv1.ReplicaSet](c.server, "replicasets")[0]
}

func (c *cluster) pods() []*corev1.Pod { return looptest.All[corev1.Pod](c.server, "pods") }

func (c *cluster) find(name string) *corev1.Pod {
	c.t.Helper()
	for _, p := range c.pods() {
		if p.Name == name {
			return p
		}
	}
	c.t.Fatalf("no pod %s", name)
	return nil
}
