package storageversionmigrator_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	migrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/millrace/millrace/internal/controllers/internal/looptest"
	"github.com/millrace/millrace/internal/controllers/storageversionmigrator"
	"github.com/millrace/millrace/millracetest"
)

var (
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	widgets     = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
)

type world struct {
	*testing.T
	server  *looptest.Server
	dynamic dynamic.Interface
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, server: looptest.New(t, millracetest.API(t))}
	w.dynamic = w.server.Clients().Dynamic
	return w
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) migration(name, group, resource string) {
	w.Helper()
	looptest.Create(w.server, "storageversionmigrations", "", &migrationv1.StorageVersionMigration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       migrationv1.StorageVersionMigrationSpec{Resource: metav1.GroupResource{Group: group, Resource: resource}},
	})
}

// conditions are the true conditions of a migration, and the message of its failure.
func (w *world) conditions(name string) string {
	w.Helper()
	m, err := w.server.Kube.StoragemigrationV1().StorageVersionMigrations().Get(w.Context(), name, metav1.GetOptions{})
	w.ok(err)
	var all []string
	for _, c := range m.Status.Conditions {
		if c.Status == metav1.ConditionTrue {
			all = append(all, strings.TrimSpace(c.Type+" "+c.Message))
		}
	}
	return strings.Join(all, ", ")
}

// define makes the definition of widgets, which are stored as v1.
func (w *world) define() {
	w.Helper()
	version := func(name string, storage bool) any {
		return map[string]any{"name": name, "served": true, "storage": storage, "schema": map[string]any{"openAPIV3Schema": map[string]any{
			"type": "object", "x-kubernetes-preserve-unknown-fields": true,
		}}}
	}
	_, err := w.dynamic.Resource(definitions).Create(w.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "widgets.example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Namespaced", "versions": []any{version("v1", true), version("v2", false)},
			"names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
		},
	}}, metav1.CreateOptions{})
	w.ok(err)
	time.Sleep(time.Minute)
}

// storeAs changes the version that widgets are stored in.
func (w *world) storeAs(version string) {
	w.Helper()
	d := w.definition()
	versions, _, _ := unstructured.NestedSlice(d.Object, "spec", "versions")
	for _, v := range versions {
		v.(map[string]any)["storage"] = v.(map[string]any)["name"] == version
	}
	w.ok(unstructured.SetNestedSlice(d.Object, versions, "spec", "versions"))
	_, err := w.dynamic.Resource(definitions).Update(w.Context(), d, metav1.UpdateOptions{})
	w.ok(err)
	time.Sleep(time.Minute)
}

func (w *world) definition() *unstructured.Unstructured {
	w.Helper()
	d, err := w.dynamic.Resource(definitions).Get(w.Context(), "widgets.example.com", metav1.GetOptions{})
	w.ok(err)
	return d
}

func (w *world) stored() []string {
	w.Helper()
	stored, _, _ := unstructured.NestedStringSlice(w.definition().Object, "status", "storedVersions")
	return stored
}

func (w *world) widget(name string) {
	w.Helper()
	_, err := w.dynamic.Resource(widgets).Namespace("default").Create(w.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": name}, "spec": map[string]any{"size": int64(1)},
	}}, metav1.CreateOptions{})
	w.ok(err)
}

// versions are the resource versions of all widgets.
func (w *world) versions() map[string]string {
	w.Helper()
	list, err := w.dynamic.Resource(widgets).Namespace("").List(w.Context(), metav1.ListOptions{})
	w.ok(err)
	all := map[string]string{}
	for _, o := range list.Items {
		all[o.GetName()] = o.GetResourceVersion()
	}
	return all
}

func TestCustomResourcesAreWrittenAnewOnceTheyAreStoredInAnotherVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define()
		for i := range 1200 { // three pages
			w.widget(fmt.Sprint("w", i))
		}
		w.storeAs("v2")
		w.widget("new")
		before := w.versions()
		looptest.Start(t, w.server.Clients(), storageversionmigrator.Entry)
		w.migration("m", "example.com", "widgets")
		time.Sleep(time.Minute)
		if got := w.conditions("m"); got != "Succeeded" {
			t.Fatalf("the migration is %q", got)
		}
		after := w.versions()
		for name := range before {
			if moved := before[name] != after[name]; moved != (name != "new") {
				t.Fatalf("widget %s was written: %v", name, moved)
			}
		}
		d := w.definition()
		conditions, _, _ := unstructured.NestedSlice(d.Object, "status", "conditions")
		i := slices.IndexFunc(conditions, func(c any) bool { return c.(map[string]any)["type"] == "StorageMigrating" })
		if i < 0 || conditions[i].(map[string]any)["status"] != "False" || conditions[i].(map[string]any)["reason"] != "MigrationSucceeded" {
			t.Errorf("the definition says %v", conditions)
		}
		if got := w.stored(); !slices.Equal(got, []string{"v2"}) {
			t.Errorf("stored are %q", got)
		}
		// Once more changes nothing.
		w.migration("again", "example.com", "widgets")
		time.Sleep(time.Minute)
		if got := w.conditions("again"); got != "Succeeded" {
			t.Errorf("the second migration is %q", got)
		}
		for name, version := range w.versions() {
			if after[name] != version {
				t.Fatalf("widget %s was written again", name)
			}
		}
	})
}

func TestADefinitionThatChangesMeanwhileKeepsItsStoredVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define()
		w.widget("w")
		w.storeAs("v2")
		changed := false
		w.server.Intercept(func(r *http.Request) error {
			if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/widgets/") && !changed {
				changed = true
				w.storeAs("v1")
			}
			return nil
		}, nil)
		looptest.Start(t, w.server.Clients(), storageversionmigrator.Entry)
		w.migration("m", "example.com", "widgets")
		time.Sleep(10 * time.Minute)
		if got := w.conditions("m"); got != "Succeeded" || len(w.stored()) != 2 {
			t.Errorf("the migration is %q, stored are %q", got, w.stored())
		}
	})
}

func TestMigrationsOfOneResourceWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		looptest.Create(w.server, "configmaps", "default", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}})
		w.server.Intercept(func(r *http.Request) error {
			if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/configmaps/") {
				return errors.New("lost")
			}
			return nil
		}, nil)
		looptest.Start(t, w.server.Clients(), storageversionmigrator.Entry)
		for _, name := range []string{"b", "a"} {
			w.migration(name, "", "configmaps")
			time.Sleep(time.Minute)
		}
		w.migration("other", "", "secrets")
		time.Sleep(time.Minute)
		if b, a, other := w.conditions("b"), w.conditions("a"), w.conditions("other"); b != "Running The migration is running" || a != "" || other != "Succeeded" {
			t.Errorf("the first is %q, the second %q, one of another resource %q", b, a, other)
		}
		w.server.Intercept(nil, nil)
		time.Sleep(time.Hour)
		if b, a := w.conditions("b"), w.conditions("a"); b != "Succeeded" || a != "Succeeded" {
			t.Errorf("the first is %q, the second %q", b, a)
		}
	})
}

func TestAMigrationOfWhatIsNotThereFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		looptest.Start(t, w.server.Clients(), storageversionmigrator.Entry)
		w.migration("none", "example.com", "widgets")
		w.migration("review", "authorization.k8s.io", "subjectaccessreviews")
		time.Sleep(30 * time.Second)
		if got := w.conditions("none"); got != "Running The migration is running" {
			t.Errorf("a resource that may be new is given up at once: %q", got)
		}
		time.Sleep(time.Minute)
		if got := w.conditions("none"); got != "Failed resource not found" {
			t.Errorf("the migration is %q", got)
		}
		if got := w.conditions("review"); !strings.HasPrefix(got, "Failed resource does not support migration") {
			t.Errorf("the migration is %q", got)
		}
	})
}

func TestWhateverCrashesAMigrationEnds(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.define()
				for i := range 60 {
					w.widget(fmt.Sprint("w", i))
				}
				w.storeAs("v2")
				before := w.versions()
				lives := looptest.StartLives(t, w.server, rand.New(rand.NewPCG(seed, 2)), storageversionmigrator.Entry)
				w.migration("m", "example.com", "widgets")
				time.Sleep(time.Minute)
				if lives.Calm() == 0 {
					t.Error("nothing crashed: the test shows nothing")
				}
				time.Sleep(20 * time.Minute)
				m, err := w.server.Kube.StoragemigrationV1().StorageVersionMigrations().Get(t.Context(), "m", metav1.GetOptions{})
				w.ok(err)
				if !meta.IsStatusConditionTrue(m.Status.Conditions, "Succeeded") || meta.IsStatusConditionTrue(m.Status.Conditions, "Running") {
					t.Errorf("the migration is %+v", m.Status)
				}
				for name, version := range w.versions() {
					if before[name] == version {
						t.Errorf("widget %s was not written", name)
					}
				}
				if got := w.stored(); !slices.Equal(got, []string{"v2"}) {
					t.Errorf("stored are %q", got)
				}
			})
		})
	}
}
