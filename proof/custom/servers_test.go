package custom_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/millrace/millrace/proof/internal/etcdtest"
)

// server starts an API server with an etcd. It ends with the test, or when end is called.
func server(t *testing.T, etcd string) (d dynamic.Interface, end func()) {
	t.Helper()
	c := etcdtest.Server(t, etcd)
	return must(dynamic.NewForConfig(c.Config()))(t), func() { must("", c.Close())(t) }
}

func TestWhatIsEstablishedOnOneServerIsServedByEveryOther(t *testing.T) {
	etcd := etcdtest.Start(t)
	one, _ := server(t, etcd)
	other, _ := server(t, etcdtest.Late(t, etcd, 20*time.Millisecond))
	for i := range 10 {
		plural := fmt.Sprint("tabs", i)
		define(t, one, strings.NewReplacer("tabs", plural, "kind: Tab", "kind: "+fmt.Sprint("Tab", i), "[tb]", fmt.Sprintf("[tb%d]", i)).Replace(definition))
		made := tab("a", "{color: red}")
		made.SetKind(fmt.Sprint("Tab", i))
		resource := tabs
		resource.Resource = plural
		created, err := other.Resource(resource).Namespace("default").Create(t.Context(), made, metav1.CreateOptions{})
		if err != nil || at(created, "spec", "replicas") != int64(1) {
			t.Fatalf("on the other server: %v, %v", created, err)
		}
		if _, err := one.Resource(resource).Namespace("default").Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
}

func TestTheEndOfADefinitionGoesOnOnAnotherServer(t *testing.T) {
	etcd := etcdtest.Start(t)
	first, end := server(t, etcd)
	made := define(t, first, definition)
	n := first.Resource(tabs).Namespace("default")
	const many = 1200 // more than one request deletes
	for i := range many {
		o := tab(fmt.Sprint("o", i), "{color: red}")
		if i == many/2 {
			o.SetFinalizers([]string{"example.com/hold"})
		}
		must(n.Create(t.Context(), o, metav1.CreateOptions{}))(t)
	}
	must("", first.Resource(definitions).Delete(t.Context(), made.GetName(), metav1.DeleteOptions{}))(t)
	await(t, first, made, func(u *unstructured.Unstructured) bool { return condition(u, "Terminating") == "True" })
	end()
	second, _ := server(t, etcd)
	n = second.Resource(tabs).Namespace("default")
	now := must(second.Resource(definitions).Get(t.Context(), made.GetName(), metav1.GetOptions{}))(t)
	if condition(now, "Terminating") != "True" {
		t.Fatalf("after the restart: %v", now.Object)
	}
	if _, err := n.Create(t.Context(), tab("late", "{color: red}"), metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a create while the definition ends: %v", err)
	}
	held := fmt.Sprint("o", many/2)
	// A server that has just started knows no change from before its start, so the watch begins now.
	now.SetResourceVersion(must(second.Resource(definitions).List(t.Context(), metav1.ListOptions{}))(t).GetResourceVersion())
	must(n.Patch(t.Context(), held, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}))(t)
	await(t, second, now, func(*unstructured.Unstructured) bool { return false })
	define(t, second, definition)
	if list := must(n.List(t.Context(), metav1.ListOptions{}))(t); len(list.Items) != 0 {
		t.Errorf("%d objects have outlived their definition", len(list.Items))
	}
}
