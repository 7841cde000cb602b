package deployment_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/controllers/internal/looptest"
)

// Users change their minds, loops crash at any write, watches are cut, delayed or expired: in the end exactly what was
// declared exists.
func TestWhateverHappensTheDeclaredStateIsReached(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { converge(t, seed) })
		})
	}
}

func converge(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	c := prepare(t)
	lives := looptest.StartLives(t, c.server, rand.New(rand.NewPCG(seed, 2)), entries...)
	looptest.Run(t, c.clients, c.nodes)
	c.create(int32(random.IntN(8)), func(d *appsv1.Deployment) {
		if seed%3 == 0 {
			d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
		}
	})
	for range 25 {
		switch random.IntN(9) {
		case 0, 1:
			n := int32(random.IntN(12))
			c.edit(func(d *appsv1.Deployment) { d.Spec.Replicas = &n })
		case 2, 3:
			c.image(fmt.Sprint("image:", random.IntN(4)))
		case 4:
			paused := random.IntN(2) == 0
			c.edit(func(d *appsv1.Deployment) { d.Spec.Paused = paused })
		case 5:
			c.server.DropWatches()
		case 6:
			c.server.Compact()
		case 7:
			c.server.HoldWatches(random.IntN(2) == 0)
		case 8:
			c.lose(random)
		}
		time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
	}
	c.server.HoldWatches(false)
	c.edit(func(d *appsv1.Deployment) { d.Spec.Paused = false })
	if lives.Calm() == 0 {
		t.Error("nothing crashed: the test shows nothing")
	}
	time.Sleep(10 * time.Minute)
	c.complete(int(*c.deployment().Spec.Replicas))
}

// lose deletes a pod, or removes its owner reference.
func (c *cluster) lose(random *rand.Rand) {
	pods := looptest.All[corev1.Pod](c.server, "pods")
	if len(pods) == 0 {
		return
	}
	p := pods[random.IntN(len(pods))]
	if random.IntN(2) == 0 {
		_ = c.clients.Kube.CoreV1().Pods(p.Namespace).Delete(c.t.Context(), p.Name, metav1.DeleteOptions{})
		return
	}
	looptest.Edit(c.server, "pods", p.Namespace, p.Name, func(p *corev1.Pod) { p.OwnerReferences = nil })
}
