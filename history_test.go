package millrace_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace"
)

// withHistory starts a cluster that keeps its past.
func withHistory(t *testing.T) *millrace.Cluster {
	return start(t, millrace.Options{
		Data: t.TempDir(), Controllers: []string{}, NoScheduler: true, History: millrace.HistoryOptions{Age: time.Hour, Bytes: 1 << 30},
	})
}

// at returns the configuration of a client of a moment.
func at(c *millrace.Cluster, when string) *rest.Config {
	config := c.Config()
	config.Host += "/at/" + when
	return config
}

// setMap writes a config map, and returns its resource version.
func setMap(t *testing.T, kube kubernetes.Interface, name, value string) string {
	t.Helper()
	maps := kube.CoreV1().ConfigMaps("default")
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"value": value}}, Data: map[string]string{"k": value}}
	stored, err := maps.Update(t.Context(), m, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		stored, err = maps.Create(t.Context(), m, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return stored.ResourceVersion
}

func TestEveryMomentOfTheHistoryIsThere(t *testing.T) {
	c := withHistory(t)
	kube := clientset(t, c)
	first := setMap(t, kube, "changed", "1")
	before := setMap(t, kube, "deleted", "1")
	setMap(t, kube, "changed", "2")
	if err := kube.CoreV1().ConfigMaps("default").Delete(t.Context(), "deleted", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	setMap(t, kube, "new", "1")

	then := kubernetes.NewForConfigOrDie(at(c, before)).CoreV1().ConfigMaps("default")
	got, err := then.Get(t.Context(), "changed", metav1.GetOptions{})
	if err != nil || got.Data["k"] != "1" || got.ResourceVersion != first {
		t.Errorf("it was %v at %s, %v", got, got.ResourceVersion, err)
	}
	all, err := then.List(t.Context(), metav1.ListOptions{LabelSelector: "value=1", Limit: 1})
	if err != nil || all.ResourceVersion != before || len(all.Items) != 1 || all.Items[0].Name != "changed" || all.Continue == "" {
		t.Fatalf("the first page is %v of %s, %v", all.Items, all.ResourceVersion, err)
	}
	all, err = then.List(t.Context(), metav1.ListOptions{LabelSelector: "value=1", Limit: 1, Continue: all.Continue})
	if err != nil || len(all.Items) != 1 || all.Items[0].Name != "deleted" || all.Continue != "" {
		t.Errorf("the second page is %v, %v", all.Items, err)
	}
	if _, err := then.Get(t.Context(), "new", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what was made later: %v", err)
	}
	if _, err := then.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{}); !apierrors.IsMethodNotSupported(err) {
		t.Errorf("a write: %v", err)
	}
}

func TestAWatchOfTheHistoryShowsWhatCameAfterIt(t *testing.T) {
	c := withHistory(t)
	kube := clientset(t, c)
	first := setMap(t, kube, "a", "1")
	setMap(t, kube, "a", "2")
	setMap(t, kube, "b", "1")
	for _, o := range []metav1.ListOptions{{}, {ResourceVersion: first}, {LabelSelector: "value=1"}} {
		o.TimeoutSeconds = new(int64(60))
		w, err := kubernetes.NewForConfigOrDie(at(c, first)).CoreV1().ConfigMaps("default").Watch(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"MODIFIED a=2", "ADDED b=1"}
		if o.LabelSelector != "" {
			want = []string{"DELETED a=1", "ADDED b=1"}
		}
		if o.ResourceVersion == "" {
			want = append([]string{"ADDED a=1"}, want...) // as every watch without a version begins
		}
		seen := nextEvents(t, w, len(want))
		if !slices.Equal(seen, want) {
			t.Errorf("with %+v came %v, want %v", o, seen, want)
		}
		now := setMap(t, kube, "c", "1")
		if seen := nextEvents(t, w, 1); seen[0] != "ADDED c=1" {
			t.Errorf("then came %v at %s", seen, now)
		}
		w.Stop()
		if err := kube.CoreV1().ConfigMaps("default").Delete(t.Context(), "c", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// The watch cache keeps 64 changes here, so a watch from before is served from the log until it has come to them.
func TestAnOldWatchGoesOnFromTheHistory(t *testing.T) {
	for _, kept := range []bool{true, false} {
		o := millrace.Options{
			Data: t.TempDir(), Controllers: []string{}, NoScheduler: true,
			Window: func(string) (events, bytes int) { return 1, 1 },
		}
		if kept {
			o.History = millrace.HistoryOptions{Age: time.Hour, Bytes: 1 << 30}
		}
		kube := clientset(t, start(t, o))
		first := setMap(t, kube, "a", "0")
		var want []string
		for i := range 200 {
			want = append(want, fmt.Sprintf("MODIFIED a=%d", i+1))
			setMap(t, kube, "a", fmt.Sprint(i+1))
		}
		w, err := kube.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: first})
		if err != nil {
			t.Fatal(err)
		}
		if !kept {
			if e := <-w.ResultChan(); e.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
				t.Errorf("without a history came %v", e)
			}
			continue
		}
		if seen := nextEvents(t, w, len(want)); !slices.Equal(seen, want) {
			t.Errorf("there came %v", seen)
		}
		for i := range 100 { // more than the window, and from the cache by now
			setMap(t, kube, "b", fmt.Sprint(i))
			if seen, want := nextEvents(t, w, 1)[0], fmt.Sprintf(" b=%d", i); !strings.HasSuffix(seen, want) {
				t.Fatalf("then came %s, want%s", seen, want)
			}
		}
		w.Stop()
	}
}

func TestAClusterEndsWhileItsHistoryIsWatched(t *testing.T) {
	c, err := millrace.Start(t.Context(), millrace.Options{
		Data: t.TempDir(), Controllers: []string{}, NoScheduler: true, History: millrace.HistoryOptions{Age: time.Hour, Bytes: 1 << 30},
	})
	if err != nil {
		t.Fatal(err)
	}
	first := setMap(t, clientset(t, c), "a", "1")
	w, err := kubernetes.NewForConfigOrDie(at(c, first)).CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: first})
	if err != nil {
		t.Fatal(err)
	}
	setMap(t, clientset(t, c), "a", "2")
	nextEvents(t, w, 1)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, open := <-w.ResultChan(); open {
		t.Error("the watch goes on")
	}
}

// nextEvents reads events of config maps.
func nextEvents(t *testing.T, w watch.Interface, n int) (seen []string) {
	t.Helper()
	for e := range w.ResultChan() {
		m, ok := e.Object.(*corev1.ConfigMap)
		if !ok {
			t.Fatalf("%v %v", e.Type, e.Object)
		}
		if m.Name == "kube-root-ca.crt" {
			continue
		}
		if seen = append(seen, fmt.Sprintf("%v %s=%s", e.Type, m.Name, m.Data["k"])); len(seen) == n {
			return seen
		}
	}
	t.Fatalf("the watch ended after %v", seen)
	return nil
}

func TestTheHistoryHasCustomKindsAsTheyWere(t *testing.T) {
	c := withHistory(t)
	kube, objects := clientset(t, c), dynamic.NewForConfigOrDie(c.Config())
	define(t, objects)
	before := setMap(t, kube, "a", "1")
	if err := objects.Resource(definitions).Delete(t.Context(), "marks.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for {
		_, err := objects.Resource(definitions).Get(t.Context(), "marks.example.com", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	then := dynamic.NewForConfigOrDie(at(c, before))
	list, err := then.Resource(marks).Namespace("default").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].GetName() != "one" {
		t.Errorf("there were %v, %v", list, err)
	}
	served := func(config *rest.Config) bool {
		_, err := discovery.NewDiscoveryClientForConfigOrDie(config).ServerResourcesForGroupVersion("example.com/v1")
		return err == nil
	}
	if !served(at(c, before)) || served(c.Config()) {
		t.Error("discovery does not show what was there then, or shows it now")
	}
}

func TestWhoMayReadTheHistoryIsDecidedByWhoMayReadNow(t *testing.T) {
	c := withHistory(t)
	rev := setMap(t, clientset(t, c), "a", "1")
	bob := at(c, rev)
	bob.Impersonate = rest.ImpersonationConfig{UserName: "bob", Groups: []string{"system:authenticated"}}
	kube := kubernetes.NewForConfigOrDie(bob)
	if _, err := kube.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("bob may not read, and got %v", err)
	}
	if _, err := kube.Discovery().ServerVersion(); err != nil {
		t.Errorf("everybody may read the version: %v", err)
	}
	nobody := rest.AnonymousClientConfig(at(c, rev))
	if _, err := kubernetes.NewForConfigOrDie(nobody).CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("nobody may read")
	}
}

func TestChangesAreNotShownToWhoMayReadOnlySelectedObjects(t *testing.T) {
	c := withHistory(t)
	kube := clientset(t, c)
	setMap(t, kube, "mine", "1")
	setMap(t, kube, "others", "1")
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"mine"}, Verbs: []string{"get", "list"}},
	}}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "mine"},
		Subjects: []rbacv1.Subject{{Kind: "User", Name: "bob"}}}
	if _, err := kube.RbacV1().Roles("default").Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := kube.RbacV1().RoleBindings("default").Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	as := c.Config()
	as.Impersonate = rest.ImpersonationConfig{UserName: "bob", Groups: []string{"system:authenticated"}}
	bob := kubernetes.NewForConfigOrDie(as).CoreV1().RESTClient()
	const maps = "/history/api/v1/namespaces/default/configmaps"
	for path, want := range map[string]int32{maps + "/mine": http.StatusOK, maps + "/others": http.StatusForbidden, maps: http.StatusForbidden} {
		if err := bob.Get().AbsPath(path).Do(t.Context()).Error(); codeOf(err) != want {
			t.Errorf("%s: %v, want %d", path, err, want)
		}
	}
	selected := bob.Get().AbsPath(maps).Param("fieldSelector", "metadata.name=mine").Do(t.Context())
	if err := selected.Error(); codeOf(err) != http.StatusForbidden {
		t.Errorf("with a selector: %v", err)
	}
	all := kube.CoreV1().RESTClient().Get().AbsPath(maps).Param("labelSelector", "a=b").Do(t.Context())
	if err := all.Error(); codeOf(err) != http.StatusBadRequest {
		t.Errorf("changes were selected: %v", err)
	}
}

func TestAMomentThatIsNotThereIsRefusedWithTheReason(t *testing.T) {
	c := withHistory(t)
	for when, want := range map[string]int32{
		"yesterday": http.StatusBadRequest, "99999999": http.StatusBadRequest, "2h": http.StatusGone, "0": http.StatusGone,
		"2001-01-01T00:00:00Z": http.StatusGone, "-5m": http.StatusBadRequest, "": http.StatusBadRequest, "0s": http.StatusOK,
	} {
		_, err := kubernetes.NewForConfigOrDie(at(c, when)).CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
		if code := codeOf(err); code != want {
			t.Errorf("%q: %d, %v", when, code, err)
		}
	}
	without := start(t, millrace.Options{Controllers: []string{}, NoScheduler: true})
	_, err := kubernetes.NewForConfigOrDie(at(without, "5")).CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsBadRequest(err) {
		t.Errorf("without a history: %v", err)
	}
}

func codeOf(err error) int32 {
	var status apierrors.APIStatus
	if err == nil {
		return http.StatusOK
	}
	if s, ok := err.(apierrors.APIStatus); ok {
		status = s
	}
	if status == nil {
		return 0
	}
	return status.Status().Code
}

var (
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	marks       = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "marks"}
)

// define defines marks, and makes one.
func define(t *testing.T, objects dynamic.Interface) {
	t.Helper()
	definition := object(t, `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "marks.example.com"},
		"spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "marks", "kind": "Mark"},
			"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}}`)
	if _, err := objects.Resource(definitions).Create(t.Context(), definition, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	mark := object(t, `{"apiVersion": "example.com/v1", "kind": "Mark", "metadata": {"name": "one"}}`)
	if _, err := objects.Resource(marks).Namespace("default").Create(t.Context(), mark, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return o
}
