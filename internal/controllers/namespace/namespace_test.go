package namespace_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/controllers/internal/looptest"
	"github.com/millrace/millrace/internal/controllers/namespace"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/millracetest"
)

func TestADeletedNamespaceIsEmptiedAndRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := looptest.New(t, millracetest.API(t))
		server.Hide("networking.k8s.io") // kinds that are added later
		c := startOn(t, server)
		c.fill("doomed")
		c.fill("kept")
		policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "late"}}
		if _, err := c.clients.Kube.NetworkingV1().NetworkPolicies("doomed").Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		server.Hide("")
		c.delete("doomed")
		if ns := c.namespace("doomed"); ns != nil {
			t.Errorf("still there: %+v", ns.Status)
		}
		for _, cm := range looptest.All[corev1.ConfigMap](c.server, "configmaps") {
			if cm.Namespace == "doomed" {
				t.Error("left behind:", cm.Name)
			}
		}
		if got := len(looptest.All[networkingv1.NetworkPolicy](c.server, "networkpolicies")); got != 0 {
			t.Errorf("%d objects of a late kind left behind", got)
		}
		if c.namespace("kept") == nil || c.configMaps() != 1 {
			t.Error("the other namespace has lost something")
		}
	})
}

func TestANamespaceReportsWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.fill("doomed")
		looptest.Edit(c.server, "configmaps", "doomed", "content", func(cm *corev1.ConfigMap) { cm.Finalizers = []string{"example.org/hold"} })
		c.delete("doomed")
		ns := c.namespace("doomed")
		if ns == nil {
			t.Fatal("gone, though its content is held")
		}
		c.expect(ns, corev1.NamespaceContentRemaining, "Some resources are remaining: configmaps. has 1 resource instances")
		c.expect(ns, corev1.NamespaceFinalizersRemaining, "Some content in the namespace has finalizers remaining: example.org/hold in 1 resource instances")
		c.expect(ns, corev1.NamespaceDeletionDiscoveryFailure, "")
		c.expect(ns, corev1.NamespaceDeletionContentFailure, "")
		cm, err := c.clients.Kube.CoreV1().ConfigMaps("doomed").Get(t.Context(), "content", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		cm.Finalizers = nil
		if _, err := c.clients.Kube.CoreV1().ConfigMaps("doomed").Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if c.namespace("doomed") != nil {
			t.Error("still there after its content was released")
		}
	})
}

func TestNamespaceWaitsForDiscoveryAndForKindsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.fill("doomed")
		var broken atomic.Bool
		broken.Store(true)
		c.server.Intercept(func(r *http.Request) error {
			if r.URL.Path == "/apis" {
				r.Header.Set("Accept", "application/json") // aggregated discovery would return all groups in one document
			}
			if broken.Load() && strings.HasPrefix(r.URL.Path, "/apis/apps/") {
				return fmt.Errorf("apps are not at home")
			}
			return nil
		}, nil)
		c.delete("doomed")
		ns := c.namespace("doomed")
		if ns == nil {
			t.Fatal("gone, though a group could not be asked")
		}
		var found bool
		for _, condition := range ns.Status.Conditions {
			found = found || condition.Type == corev1.NamespaceDeletionDiscoveryFailure && condition.Status == corev1.ConditionTrue
		}
		if !found {
			t.Errorf("conditions: %+v", ns.Status.Conditions)
		}
		if got := c.configMaps(); got != 0 {
			t.Errorf("%d config maps wait for a group that they have nothing to do with", got)
		}
		broken.Store(false)
		time.Sleep(time.Minute)
		if c.namespace("doomed") != nil {
			t.Error("still there after discovery recovered")
		}
	})
}

// configMaps counts those outside kube-system, where every cluster has some.
func (c *cluster) configMaps() int {
	n := 0
	for _, m := range looptest.All[corev1.ConfigMap](c.server, "configmaps") {
		if m.Namespace != metav1.NamespaceSystem {
			n++
		}
	}
	return n
}

func TestPodsAreDeletedBeforeWhatTheyUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.fill("doomed")
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}, Spec: corev1.PodSpec{NodeName: "node", Containers: looptest.Containers()}}
		if _, err := c.clients.Kube.CoreV1().Pods("doomed").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		c.delete("doomed") // no kubelet stops the pod
		if c.configMaps() != 1 {
			t.Error("the config map went before the pod")
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = (&looptest.Nodes{Server: c.server}).Run(ctx) }()
		time.Sleep(time.Minute)
		if c.namespace("doomed") != nil {
			t.Error("still there after the pod has ended")
		}
	})
}

func TestANewNamespaceOfTheSameNameKeepsItsObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.fill("reborn")
		looptest.Edit(c.server, "configmaps", "reborn", "content", func(cm *corev1.ConfigMap) { cm.Finalizers = []string{"example.org/hold"} })
		c.delete("reborn")
		// The loop's cache still shows the old namespace, while another client completes its deletion.
		c.server.HoldWatches(true)
		kube := c.clients.Kube.CoreV1()
		cm, err := kube.ConfigMaps("reborn").Get(t.Context(), "content", metav1.GetOptions{})
		if err == nil {
			cm.Finalizers = nil
			_, err = kube.ConfigMaps("reborn").Update(t.Context(), cm, metav1.UpdateOptions{})
		}
		ns := c.namespace("reborn")
		ns.Spec.Finalizers = nil
		if err == nil {
			_, err = kube.Namespaces().Finalize(t.Context(), ns, metav1.UpdateOptions{})
		}
		if err != nil || c.namespace("reborn") != nil {
			t.Fatal(err, c.namespace("reborn"))
		}
		c.fill("reborn")
		time.Sleep(time.Hour)
		if c.configMaps() != 1 {
			t.Error("the new namespace has been emptied")
		}
		if phase := c.namespace("reborn").Status.Phase; phase == corev1.NamespaceTerminating {
			t.Error("the new namespace is said to be terminating")
		}
	})
}

type cluster struct {
	t       *testing.T
	server  *looptest.Server
	clients *loop.Clients
}

func start(t *testing.T) *cluster { return startOn(t, looptest.New(t, millracetest.API(t))) }

func startOn(t *testing.T, server *looptest.Server) *cluster {
	clients := server.Clients()
	looptest.Start(t, clients, namespace.Entry)
	return &cluster{t, server, clients}
}

func (c *cluster) fill(name string) {
	c.t.Helper()
	kube := c.clients.Kube.CoreV1()
	if _, err := kube.Namespaces().Create(c.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	if _, err := kube.ConfigMaps(name).Create(c.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "content"}}, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) delete(name string) {
	c.t.Helper()
	if err := c.clients.Kube.CoreV1().Namespaces().Delete(c.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
	time.Sleep(time.Minute)
	synctest.Wait()
}

func (c *cluster) namespace(name string) *corev1.Namespace {
	for _, ns := range looptest.All[corev1.Namespace](c.server, "namespaces") {
		if ns.Name == name {
			return ns
		}
	}
	return nil
}

// expect checks that a condition is true with that message, or false if the message is empty.
func (c *cluster) expect(ns *corev1.Namespace, kind corev1.NamespaceConditionType, message string) {
	c.t.Helper()
	for _, condition := range ns.Status.Conditions {
		if condition.Type != kind {
			continue
		}
		if (condition.Status == corev1.ConditionTrue) != (message != "") || message != "" && condition.Message != message {
			c.t.Errorf("condition %+v, expected message %q", condition, message)
		}
		return
	}
	c.t.Errorf("no condition %s", kind)
}
