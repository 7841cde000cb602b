package loops_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/randomly"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/controllers"
	"github.com/millrace/millrace/internal/scheduler"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/millracetest"
)

// bare returns a cluster without a namespace for the test, because no loops run that would create its service account.
func bare(t *testing.T, o millrace.Options) *world {
	t.Helper()
	o.NoScheduler = true
	c := millracetest.Start(t, o)
	return &world{T: t, cluster: c, kube: millracetest.Clientset(t, c)}
}

// loops are controllers and a scheduler that can be stopped at any point of their work.
type loops struct {
	w       *world
	cancel  context.CancelFunc
	running sync.WaitGroup
}

func (w *world) loops(entries []loop.Entry, more ...func(*loop.Clients) (loop.Runner, error)) *loops {
	w.Helper()
	clients := must(loop.NewClients(w.cluster.Config(), nil))(w)
	group := &loop.Group{Clients: clients, Entries: entries}
	runners := []loop.Runner{group, scheduler.New(scheduler.For(clients))}
	for _, one := range more {
		runners = append(runners, must(one(clients))(w))
	}
	ctx, cancel := context.WithCancel(w.Context())
	l := &loops{w: w, cancel: cancel}
	l.running.Go(func() {
		if err := loop.Run(ctx, clients, runners...); err != nil {
			w.Errorf("the loops ended: %v", err)
		}
	})
	return l
}

func (l *loops) stop() {
	l.cancel()
	l.running.Wait()
}

// Whatever users do, and wherever the loops are stopped and started again, in the end the declared state exists:
// nothing is missing, nothing exists twice, and no objects of deleted owners are left.
func TestRandomActionsAndStopsConverge(t *testing.T) {
	t.Parallel()
	seed := randomly.Seed(t)
	random := rand.New(rand.NewPCG(seed, 1))
	w := bare(t, millrace.Options{Controllers: []string{}, Nodes: 3})
	all := controllers.All(controllers.Options{})
	l := w.loops(all)
	w.ns = w.namespace()
	u := &user{world: w, random: random, declared: map[string]bool{}, paused: map[string]bool{}}
	for range 6 {
		for range 6 {
			u.act()
			u.wait(40)
		}
		l.stop()
		u.act()
		u.act()
		l = w.loops(all)
		u.wait(150)
	}
	defer func() { l.stop() }()
	u.settle()
}

// user makes random changes, and remembers the expected state.
type user struct {
	*world
	random   *rand.Rand
	declared map[string]bool
	paused   map[string]bool
}

// wait waits a random time, so that the next change or stop meets the loops at any point of their work.
func (u *user) wait(most int) {
	timer := time.NewTimer(time.Duration(u.random.IntN(most)) * time.Millisecond)
	defer timer.Stop()
	<-timer.C
}

func (u *user) act() {
	u.Helper()
	name := fmt.Sprint("app", u.random.IntN(3))
	if !u.declared[name] {
		u.create(name)
		return
	}
	switch u.random.IntN(10) {
	case 0, 1, 2:
		u.patch(name, scaled(u.random.IntN(9)))
	case 3, 4:
		u.patch(name, imaged(fmt.Sprint("image:", u.random.IntN(3))))
	case 5:
		u.paused[name] = !u.paused[name]
		u.patch(name, paused(u.paused[name]))
	case 6, 7:
		u.disturb(name)
	case 8, 9:
		u.remove(name)
	}
}

// create creates a deployment with its service, unless the old one with that name is still being deleted.
func (u *user) create(name string) {
	u.Helper()
	d := deployment(name, int32(u.random.IntN(6)))
	if _, err := u.kube.AppsV1().Deployments(u.ns).Create(u.Context(), d, metav1.CreateOptions{}); err != nil {
		return
	}
	u.declared[name] = true
	_, _ = u.kube.CoreV1().Services(u.ns).Create(u.Context(), service(name), metav1.CreateOptions{}) // it may still exist
}

// disturb deletes a pod, or removes it from its owner.
func (u *user) disturb(name string) {
	u.Helper()
	pods := u.pods("app=" + name)
	if len(pods) == 0 {
		return
	}
	p := pods[u.random.IntN(len(pods))]
	if u.random.IntN(2) == 0 {
		_ = u.kube.CoreV1().Pods(u.ns).Delete(u.Context(), p.Name, metav1.DeleteOptions{}) // it may have been deleted
		return
	}
	_, _ = u.kube.CoreV1().Pods(u.ns).Patch(u.Context(), p.Name, types.MergePatchType, []byte(`{"metadata":{"ownerReferences":null}}`), metav1.PatchOptions{})
}

func (u *user) remove(name string) {
	u.Helper()
	how := metav1.DeletePropagationBackground
	if u.random.IntN(2) == 0 {
		how = metav1.DeletePropagationForeground
	}
	u.ok(u.kube.AppsV1().Deployments(u.ns).Delete(u.Context(), name, metav1.DeleteOptions{PropagationPolicy: &how}))
	u.declared[name], u.paused[name] = false, false
}

// settle waits for the declared state.
func (u *user) settle() {
	u.Helper()
	for name, there := range u.declared {
		if !there {
			u.eventually(name+" is gone", func() error {
				return absent(u.kube.AppsV1().Deployments(u.ns).Get(u.Context(), name, metav1.GetOptions{}))
			})
			continue
		}
		u.patch(name, paused(false))
		u.rolledOut(name)
		u.eventually("the service has the ready pods", func() error { return u.served(name) })
	}
	u.eventually("nothing belongs to what is gone", u.nothingLost)
	for name, there := range u.declared {
		if there {
			u.ok(u.asDeclared(name)) // still as declared
		}
	}
}

// nothingLost follows each pod to its deployment. A pod that was removed from its owner after that was deleted has no
// owner: it stays, as in Kubernetes.
func (u *user) nothingLost() error {
	sets := map[types.UID]string{}
	for _, rs := range must(u.kube.AppsV1().ReplicaSets(u.ns).List(u.Context(), metav1.ListOptions{}))(u).Items {
		d := metav1.GetControllerOf(&rs)
		if d == nil || !u.declared[d.Name] {
			return fmt.Errorf("replica set %s has no deployment", rs.Name)
		}
		sets[rs.UID] = rs.Name
	}
	for _, p := range u.pods("") {
		rs := metav1.GetControllerOf(&p)
		if rs != nil && sets[rs.UID] == "" {
			return fmt.Errorf("pod %s belongs to %s, which is gone", p.Name, rs.Name)
		}
		if rs == nil && u.declared[p.Labels["app"]] {
			return fmt.Errorf("pod %s has no owner", p.Name)
		}
	}
	return nil
}
