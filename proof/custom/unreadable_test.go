package custom_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/seam"
	"github.com/millrace/millrace/internal/server/store"
)

// opened is a cluster whose store is at hand.
type opened struct {
	store   store.Store
	objects dynamic.Interface
	kube    *kubernetes.Clientset
}

func open(t *testing.T, controllers ...string) *opened {
	t.Helper()
	o := &opened{}
	ctx := seam.Around(t.Context(), func(s store.Store) store.Store { o.store = s; return s })
	c := must(millrace.Start(ctx, millrace.Options{Nodes: -1, NoScheduler: true, Controllers: append([]string{}, controllers...)}))(t)
	t.Cleanup(func() { c.Close() })
	o.objects, o.kube = must(dynamic.NewForConfig(c.Config()))(t), must(kubernetes.NewForConfig(c.Config()))(t)
	return o
}

const definitionKey = "/registry/apiextensions.k8s.io/customresourcedefinitions/tabs.example.com"

// put exchanges a stored value, and returns the one before.
func (o *opened) put(t *testing.T, key, value string) string {
	t.Helper()
	e := must(o.store.Get(t.Context(), key, store.GetOptions{}))(t)
	must(o.store.Update(t.Context(), key, []byte(value), e.Revision, 0))(t)
	return string(e.Value)
}

// awaitNamespace watches a namespace until it is as wanted, or gone.
func (o *opened) awaitNamespace(t *testing.T, name string, wanted func(*corev1.Namespace) bool) (gone bool) {
	t.Helper()
	namespaces := o.kube.CoreV1().Namespaces()
	now, err := namespaces.Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true
	}
	if must(now, err)(t); wanted(now) {
		return false
	}
	w := must(namespaces.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name, ResourceVersion: now.ResourceVersion}))(t)
	defer w.Stop()
	for e := range w.ResultChan() {
		if e.Type == "DELETED" {
			return true
		}
		if ns, ok := e.Object.(*corev1.Namespace); ok && wanted(ns) {
			return false
		}
	}
	t.Fatal("the watch ended")
	return false
}

// holds tells whether a condition of a namespace is true and says a text.
func holds(kind corev1.NamespaceConditionType, text string) func(*corev1.Namespace) bool {
	return func(ns *corev1.Namespace) bool {
		for _, c := range ns.Status.Conditions {
			if c.Type == kind && c.Status == corev1.ConditionTrue && strings.Contains(c.Message, text) {
				return true
			}
		}
		return false
	}
}

func (o *opened) makeNamespace(t *testing.T, name string) {
	t.Helper()
	must(o.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))(t)
}

func TestADefinitionThatCannotBeReadIsNotTakenForOneThatDoesNotExist(t *testing.T) {
	o := open(t, "namespace-controller")
	define(t, o.objects, definition)
	define(t, o.objects, strings.NewReplacer("tabs", "labels", "Tab", "Label", "[tb]", "[lb]").Replace(definition))
	o.makeNamespace(t, "a")
	must(o.objects.Resource(tabs).Namespace("a").Create(t.Context(), tab("kept", "{color: red}"), metav1.CreateOptions{}))(t)

	readable := o.put(t, definitionKey, "k8s\x00garbage")
	get := func() error {
		_, err := o.objects.Resource(tabs).Namespace("a").Get(t.Context(), "kept", metav1.GetOptions{})
		return err
	}
	err := get()
	for err == nil { // it was written behind the server's back, whose log tells of it later
		err = get()
	}
	if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "tabs.example.com cannot be read") {
		t.Errorf("its objects: %v", err)
	}
	if all := must(o.objects.Resource(definitions).List(t.Context(), metav1.ListOptions{}))(t); len(all.Items) != 1 || all.Items[0].GetName() != "labels.example.com" {
		t.Errorf("the list of definitions has %d", len(all.Items))
	}
	if _, err := o.objects.Resource(definitions).Get(t.Context(), "tabs.example.com", metav1.GetOptions{}); !apierrors.IsInternalError(err) {
		t.Errorf("the definition: %v", err)
	}
	if _, _, err := o.kube.Discovery().ServerGroupsAndResources(); !discovery.IsGroupDiscoveryFailedError(err) {
		t.Errorf("discovery says that it is complete: %v", err)
	}
	if report := o.ready(t); !strings.Contains(report, "[+]stored-objects ok\nwarn: 1 customresourcedefinitions.apiextensions.k8s.io cannot be read") {
		t.Errorf("/readyz:\n%s", report)
	}
	must("", o.kube.CoreV1().Namespaces().Delete(t.Context(), "a", metav1.DeleteOptions{}))(t)
	if o.awaitNamespace(t, "a", holds(corev1.NamespaceDeletionDiscoveryFailure, "example.com/unreadable")) {
		t.Fatal("the namespace is gone")
	}
	o.cannotBeFinalized(t, "a", "the objects of the definition tabs.example.com")

	o.put(t, definitionKey, readable)
	if !o.awaitNamespace(t, "a", func(*corev1.Namespace) bool { return false }) {
		t.Error("the namespace stays")
	}
	if page := must(o.store.List(t.Context(), "/registry/example.com/", store.ListOptions{}))(t); len(page.Entries) != 0 {
		t.Errorf("%d custom resources stay in the store", len(page.Entries))
	}
}

// ready returns the report of the health checks.
func (o *opened) ready(t *testing.T) string {
	t.Helper()
	return string(must(o.kube.Discovery().RESTClient().Get().AbsPath("/readyz").Param("verbose", "").DoRaw(t.Context()))(t))
}

// cannotBeFinalized does what any namespace controller does that sees nothing left in a namespace.
func (o *opened) cannotBeFinalized(t *testing.T, name, why string) {
	t.Helper()
	ns := must(o.kube.CoreV1().Namespaces().Get(context.Background(), name, metav1.GetOptions{}))(t)
	ns.Spec.Finalizers = nil
	if _, err := o.kube.CoreV1().Namespaces().Finalize(t.Context(), ns, metav1.UpdateOptions{}); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), why) {
		t.Errorf("removing the last finalizer: %v", err)
	}
}

func TestANamespaceStaysWhileAnObjectInItCannotBeRead(t *testing.T) {
	o := open(t, "namespace-controller")
	o.makeNamespace(t, "a")
	maps := o.kube.CoreV1().ConfigMaps("a")
	for _, name := range []string{"good", "bad"} {
		must(maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))(t)
	}
	o.put(t, "/registry/configmaps/a/bad", `{"apiVersion": "v7", "kind": "ConfigMap"}`)
	if all := must(maps.List(t.Context(), metav1.ListOptions{}))(t); len(all.Items) != 1 {
		t.Errorf("the list has %d objects", len(all.Items))
	}
	must("", o.kube.CoreV1().Namespaces().Delete(t.Context(), "a", metav1.DeleteOptions{}))(t)
	if o.awaitNamespace(t, "a", holds(corev1.NamespaceDeletionContentFailure, "1 configmaps")) {
		t.Fatal("the namespace is gone")
	}
	must("", maps.Delete(t.Context(), "bad", metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: new(true)}))(t)
	if !o.awaitNamespace(t, "a", func(*corev1.Namespace) bool { return false }) {
		t.Error("the namespace stays")
	}
}
