package disruption_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/millrace/millrace/internal/controllers/deployment"
	"github.com/millrace/millrace/internal/controllers/disruption"
	"github.com/millrace/millrace/internal/controllers/internal/looptest"
	"github.com/millrace/millrace/internal/controllers/replicaset"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/millracetest"
)

func TestABudgetAllowsEvictionsAboveItsMinimum(t *testing.T) {
	for name, c := range map[string]struct {
		spec             policyv1.PodDisruptionBudgetSpec
		desired, allowed int32
	}{
		"at least 3":          {policyv1.PodDisruptionBudgetSpec{MinAvailable: number("3")}, 3, 2},
		"at least 50 percent": {policyv1.PodDisruptionBudgetSpec{MinAvailable: number("50%")}, 3, 2},
		"at most 1 missing":   {policyv1.PodDisruptionBudgetSpec{MaxUnavailable: number("1")}, 4, 1},
		"a third missing":     {policyv1.PodDisruptionBudgetSpec{MaxUnavailable: number("34%")}, 3, 2},
		"none":                {policyv1.PodDisruptionBudgetSpec{MaxUnavailable: number("0")}, 5, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t)
				w.deploy(5)
				w.budget(c.spec)
				w.settle()
				s := w.status()
				if s.ExpectedPods != 5 || s.CurrentHealthy != 5 || s.DesiredHealthy != c.desired || s.DisruptionsAllowed != c.allowed || s.ObservedGeneration != 1 {
					t.Errorf("status %+v", s)
				}
				reason := "SufficientPods"
				if c.allowed == 0 {
					reason = "InsufficientPods"
				}
				if len(s.Conditions) != 1 || s.Conditions[0].Type != "DisruptionAllowed" || s.Conditions[0].Reason != reason {
					t.Errorf("conditions %+v", s.Conditions)
				}
			})
		})
	}
}

func TestPodsWithoutAControllerCannotBeCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		looptest.Create(w.server, "pods", "default", &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "alone", Labels: map[string]string{"app": "web"}}, Spec: corev1.PodSpec{Containers: looptest.Containers()},
		})
		w.budget(policyv1.PodDisruptionBudgetSpec{MaxUnavailable: number("1")})
		w.settle()
		if s := w.status(); s.DisruptionsAllowed != 0 || s.ExpectedPods != 0 {
			t.Errorf("status %+v", s)
		}
		w.event("UnmanagedPods")
	})
}

func TestPodsOfAControllerWithoutAScaleCannotBeCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		yes := true
		looptest.Create(w.server, "pods", "default", &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "one", Labels: map[string]string{"app": "web"}, OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "web", UID: "1", Controller: &yes},
			}}, Spec: corev1.PodSpec{Containers: looptest.Containers()},
		})
		w.settle() // a loop that saw the budget before the pod would count it once
		w.budget(policyv1.PodDisruptionBudgetSpec{MaxUnavailable: number("1")})
		w.settle()
		const message = "daemonsets.apps does not implement the scale subresource"
		s := w.status()
		if len(s.Conditions) != 1 || s.Conditions[0].Reason != "SyncFailed" || s.Conditions[0].Message != message || s.ObservedGeneration != 0 {
			t.Errorf("status %+v", s)
		}
		w.event("CalculateExpectedPodCountFailed")
	})
}

func TestAGrantedEvictionCountsForTwoMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		w.deploy(3)
		w.budget(policyv1.PodDisruptionBudgetSpec{MaxUnavailable: number("1")})
		w.settle()
		pod := looptest.All[corev1.Pod](w.server, "pods")[0].Name
		looptest.Edit(w.server, "poddisruptionbudgets", "default", "web", func(b *policyv1.PodDisruptionBudget) {
			b.Status.DisruptedPods = map[string]metav1.Time{pod: metav1.Now()} // as the API does before it deletes the pod
			b.Status.DisruptionsAllowed = 0
		})
		time.Sleep(time.Minute)
		if s := w.status(); s.DisruptionsAllowed != 0 || len(s.DisruptedPods) != 1 {
			t.Errorf("status %+v", s)
		}
		time.Sleep(90 * time.Second)
		if s := w.status(); s.DisruptionsAllowed != 1 || len(s.DisruptedPods) != 0 {
			t.Errorf("status %+v", s)
		}
		w.event("NotDeleted")
	})
}

// Clients evict as fast as they can, while the loop crashes at any write: never are more pods evicted than the budget
// allows.
func TestEvictionsNeverTakeMoreThanTheBudget(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { evict(t, seed) })
		})
	}
}

func evict(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	w := prepare(t)
	looptest.Run(t, w.clients, append(looptest.Make(t, w.clients, deployment.Entry, replicaset.Entry), w.nodes)...)
	lives := looptest.StartLives(t, w.server, rand.New(rand.NewPCG(seed, 2)), disruption.Entry)
	w.deploy(6)
	w.budget(policyv1.PodDisruptionBudgetSpec{MaxUnavailable: number("2")})
	w.settle()
	stop := looptest.Observe(w.server, func() {
		ready := 0
		for _, p := range looptest.All[corev1.Pod](w.server, "pods") {
			if p.DeletionTimestamp == nil && looptest.Ready(p) {
				ready++
			}
		}
		if ready < 4 {
			t.Errorf("%d pods are ready", ready)
		}
	})
	granted := 0
	for range 60 {
		pods := looptest.All[corev1.Pod](w.server, "pods")
		p := pods[random.IntN(len(pods))]
		err := w.server.Kube.PolicyV1().Evictions("default").Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: "default"}})
		if err == nil {
			granted++
		}
		if random.IntN(20) == 0 {
			w.server.DropWatches()
		}
		time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
	}
	stop()
	if lives.Calm() == 0 || granted < 3 {
		t.Errorf("%d evictions were granted: the test shows nothing", granted)
	}
	time.Sleep(10 * time.Minute)
	if s := w.status(); s.DisruptionsAllowed != 2 || s.CurrentHealthy != 6 {
		t.Errorf("status %+v", s)
	}
}

type world struct {
	t       *testing.T
	server  *looptest.Server
	clients *loop.Clients
	nodes   *looptest.Nodes
}

func prepare(t *testing.T) *world {
	server := looptest.New(t, millracetest.API(t))
	return &world{t, server, server.Clients(), &looptest.Nodes{Server: server, Count: 3}}
}

func start(t *testing.T) *world {
	w := prepare(t)
	looptest.Run(t, w.clients, append(looptest.Make(t, w.clients, disruption.Entry, deployment.Entry, replicaset.Entry), w.nodes)...)
	return w
}

func number(text string) *intstr.IntOrString {
	n := intstr.Parse(text)
	return &n
}

func (w *world) deploy(replicas int32) {
	w.t.Helper()
	labels := map[string]string{"app": "web"}
	looptest.Create(w.server, "deployments", "default", &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: looptest.Containers()}},
		},
	})
}

func (w *world) budget(spec policyv1.PodDisruptionBudgetSpec) {
	w.t.Helper()
	spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	looptest.Create(w.server, "poddisruptionbudgets", "default", &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: spec})
}

func (w *world) settle() { time.Sleep(5 * time.Minute); synctest.Wait() }

func (w *world) status() policyv1.PodDisruptionBudgetStatus {
	synctest.Wait()
	return looptest.All[policyv1.PodDisruptionBudget](w.server, "poddisruptionbudgets")[0].Status
}

func (w *world) event(reason string) {
	w.t.Helper()
	for _, e := range looptest.All[corev1.Event](w.server, "events") {
		if e.Reason == reason && e.Source.Component == "controllermanager" {
			return
		}
	}
	w.t.Errorf("no event %s", reason)
}
