package garbage_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/controllers/garbage"
	"github.com/millrace/millrace/internal/controllers/internal/looptest"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/millracetest"
)

var maps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func TestDependentsAreDeletedWithTheirLastOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		a, b := c.make("a"), c.make("b")
		c.make("both", a, b)
		child := c.make("child", a)
		c.make("grandchild", child)
		c.settle()
		c.delete("a", metav1.DeletePropagationBackground)
		c.settle()
		c.expect("b both")
		if refs := c.get("both").GetOwnerReferences(); len(refs) != 1 || refs[0].Name != "b" {
			t.Errorf("owners of both: %v", refs)
		}
		c.delete("b", metav1.DeletePropagationBackground)
		c.settle()
		c.expect("")
	})
}

func TestForegroundDeletionWaitsForBlockingDependents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		a := c.make("a")
		child := c.make("child", a)
		held := c.make("held", child)
		c.hold(held, "test/hold")
		c.settle()
		c.delete("a", metav1.DeletePropagationForeground)
		c.settle()
		c.expect("a child held")
		c.hold(c.get("held"))
		c.settle()
		c.expect("")
	})
}

// The watch of dependents is delayed until long after the owner is gone.
func TestADependentThatNoCacheShowsYetIsOrphanedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.settle()
		c.server.Intercept(func(r *http.Request) error {
			if strings.HasSuffix(r.URL.Path, "configmaps") && r.URL.Query().Get("watch") != "" {
				return fmt.Errorf("no way to follow config maps")
			}
			return nil
		}, nil)
		c.server.DropWatches()
		c.ownedByService()
		orphan := metav1.DeletePropagationOrphan
		if err := c.clients.Kube.CoreV1().Services("default").Delete(t.Context(), "owner", metav1.DeleteOptions{PropagationPolicy: &orphan}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		c.server.Intercept(nil, nil)
		time.Sleep(10 * time.Minute)
		c.expect("dependent")
	})
}

func TestOrphanedDependentsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		a := c.make("a")
		c.make("child", a)
		c.settle()
		c.delete("a", metav1.DeletePropagationOrphan)
		c.settle()
		c.expect("child")
		if refs := c.get("child").GetOwnerReferences(); len(refs) != 0 {
			t.Errorf("owners of child: %v", refs)
		}
	})
}

func TestACycleOfForegroundDeletionsIsBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		a := c.make("a")
		b := c.make("b", a)
		c.own(c.get("a"), b)
		c.settle()
		c.delete("a", metav1.DeletePropagationForeground)
		c.settle()
		c.expect("")
	})
}

func TestKindThatAppearsLaterIsCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := prepare(t)
		c.server.Hide("networking.k8s.io")
		looptest.Start(t, c.clients, garbage.Entry)
		policies := c.clients.Kube.NetworkingV1().NetworkPolicies("default")
		a := c.make("a")
		o := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "dependent", OwnerReferences: []metav1.OwnerReference{reference(a)}}}
		if _, err := policies.Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		c.server.Hide("")
		time.Sleep(time.Minute)
		c.delete("a", metav1.DeletePropagationBackground)
		time.Sleep(time.Minute)
		_, err := policies.Get(t.Context(), "dependent", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			t.Fatalf("dependent of a late kind: %v", err)
		}
	})
}

// ownedByService makes a Service "owner" and a ConfigMap "dependent" that it owns.
func (c *cluster) ownedByService() {
	c.t.Helper()
	service, err := c.clients.Kube.CoreV1().Services("default").Create(c.t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "owner"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	dependent := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "dependent", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(service, corev1.SchemeGroupVersion.WithKind("Service"))},
	}}
	if _, err := c.clients.Kube.CoreV1().ConfigMaps("default").Create(c.t.Context(), dependent, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	c.settle()
	c.expect("dependent")
}

func TestOwnerThatNoCacheShowsKeepsItsDependents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.settle()
		// The watch of Services is blocked; that of ConfigMaps is not.
		c.server.Intercept(func(r *http.Request) error {
			if strings.Contains(r.URL.Path, "services") && r.URL.Query().Get("watch") != "" {
				return fmt.Errorf("no way to services")
			}
			return nil
		}, nil)
		c.server.DropWatches()
		c.ownedByService()
	})
}

// A controller may make dependents before it knows that their owner is gone, while earlier dependents are still being
// deleted.
func TestADependentThatIsMadeAfterItsOwnerWasDeletedDoesNotStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		a := c.make("a")
		held := c.make("held", a)
		c.hold(held, "test/hold")
		c.settle()
		c.delete("a", metav1.DeletePropagationBackground)
		c.settle()
		c.make("late", a)
		c.settle()
		c.make("later", a)
		c.settle()
		c.expect("held")
	})
}

func TestAnOwnerThatNoCacheHasShownTakesItsDependentsAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.settle()
		var away atomic.Bool
		away.Store(true)
		c.server.Intercept(func(r *http.Request) error { // Services cannot be watched, but read
			if away.Load() && strings.HasSuffix(r.URL.Path, "services") && r.Method == http.MethodGet {
				return fmt.Errorf("no way to services")
			}
			return nil
		}, nil)
		c.server.DropWatches()
		c.ownedByService()
		if err := c.clients.Kube.CoreV1().Services("default").Delete(t.Context(), "owner", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		c.server.Compact() // no watch will show that it existed
		away.Store(false)
		time.Sleep(5 * time.Minute)
		c.expect("")
	})
}

func TestAnOwnerInAnotherNamespaceCountsAsAbsentAndIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		a := c.make("a")
		c.settle()
		looptest.Namespace(c.server, "other")
		stray := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "stray", OwnerReferences: []metav1.OwnerReference{reference(a)}}}
		if _, err := c.clients.Kube.CoreV1().ConfigMaps("other").Create(t.Context(), stray, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		c.settle()
		c.expect("a")
		events := looptest.All[corev1.Event](c.server, "events")
		if len(events) != 1 || events[0].Reason != "OwnerRefInvalidNamespace" {
			t.Errorf("events: %v", events)
		}
	})
}

// A random forest of owners, with deletions of all policies, failing requests, cut and expired watches: in the end
// exactly the objects remain that have an owner left or never had one.
func TestRandomGraphsConverge(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomGraph(t, rand.New(rand.NewPCG(seed, 7))) })
		})
	}
}

func randomGraph(t *testing.T, random *rand.Rand) {
	c := start(t)
	faults := c.server.Faults(rand.New(rand.NewPCG(random.Uint64(), 8)))
	var names []string
	owners := map[string][]string{}
	for i := range 40 {
		name := fmt.Sprintf("o%02d", i)
		var refs []*metav1.PartialObjectMetadata
		for range random.IntN(3) {
			if len(names) == 0 {
				break
			}
			owner := names[random.IntN(len(names))]
			if o := c.find(owner); o != nil && o.DeletionTimestamp == nil {
				refs, owners[name] = append(refs, o), append(owners[name], owner)
			}
		}
		c.make(name, refs...)
		names = append(names, name)
		switch random.IntN(6) {
		case 0:
			c.server.DropWatches()
		case 1:
			c.server.Compact()
		case 2:
			time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
		}
	}
	c.settle()
	roots := map[string]bool{}
	for i := range 8 {
		faults.Store(false)
		victim := names[random.IntN(len(names))]
		policies := []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground}
		policy := policies[i%2]
		err := c.clients.Metadata.Resource(maps).Namespace("default").Delete(t.Context(), victim, metav1.DeleteOptions{PropagationPolicy: &policy})
		if err == nil {
			roots[victim] = true
		}
		faults.Store(true)
		time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond)
	}
	faults.Store(false)
	time.Sleep(10 * time.Minute)
	var want []string
	gone := map[string]bool{}
	for _, name := range names { // owners come before their dependents
		alive := !roots[name] && len(owners[name]) == 0
		for _, owner := range owners[name] {
			alive = alive || !roots[name] && !gone[owner]
		}
		gone[name] = !alive
		if alive {
			want = append(want, name)
		}
	}
	c.expect(strings.Join(want, " "))
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

func start(t *testing.T) *cluster {
	c := prepare(t)
	looptest.Start(t, c.clients, garbage.Entry)
	return c
}

func (c *cluster) settle() { time.Sleep(time.Minute); synctest.Wait() }

func reference(owner *metav1.PartialObjectMetadata) metav1.OwnerReference {
	yes := true
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, BlockOwnerDeletion: &yes}
}

func (c *cluster) make(name string, owners ...*metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	c.t.Helper()
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, owner := range owners {
		o.OwnerReferences = append(o.OwnerReferences, reference(owner))
	}
	made, err := c.clients.Kube.CoreV1().ConfigMaps("default").Create(c.t.Context(), o, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: made.ObjectMeta}
}

func (c *cluster) find(name string) *metav1.PartialObjectMetadata {
	o, err := c.clients.Metadata.Resource(maps).Namespace("default").Get(c.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return o
}

func (c *cluster) get(name string) *metav1.PartialObjectMetadata {
	c.t.Helper()
	o := c.find(name)
	if o == nil {
		c.t.Fatalf("%s is not there", name)
	}
	return o
}

func (c *cluster) edit(name string, edit func(*corev1.ConfigMap)) {
	looptest.Edit(c.server, "configmaps", "default", name, edit)
}

func (c *cluster) hold(o *metav1.PartialObjectMetadata, finalizers ...string) {
	c.t.Helper()
	cm, err := c.clients.Kube.CoreV1().ConfigMaps("default").Get(c.t.Context(), o.Name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	cm.Finalizers = finalizers
	if _, err := c.clients.Kube.CoreV1().ConfigMaps("default").Update(c.t.Context(), cm, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) own(o, owner *metav1.PartialObjectMetadata) {
	c.edit(o.Name, func(cm *corev1.ConfigMap) { cm.OwnerReferences = []metav1.OwnerReference{reference(owner)} })
}

func (c *cluster) delete(name string, policy metav1.DeletionPropagation) {
	c.t.Helper()
	if err := c.clients.Metadata.Resource(maps).Namespace("default").Delete(c.t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) expect(names string) {
	c.t.Helper()
	list, err := c.clients.Kube.CoreV1().ConfigMaps("").List(c.t.Context(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	var got []string
	for _, o := range list.Items {
		if o.Namespace != metav1.NamespaceSystem { // every cluster has some
			got = append(got, o.Name)
		}
	}
	if strings.Join(got, " ") != names {
		c.t.Errorf("there are %q, expected %q", strings.Join(got, " "), names)
	}
}
