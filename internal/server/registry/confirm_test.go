package registry

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace/millrace/internal/server/resource"
)

// ending is an object that has been deleted and waits for a finalizer.
func (w *world) ending(name string) {
	w.t.Helper()
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Finalizers: []string{"example.org/hold"}, Labels: map[string]string{"app": "a"}}}
	if _, err := w.maps.Create(w.t.Context(), "default", o, WriteOptions{}); err != nil {
		w.t.Fatal(err)
	}
	if out, err := w.delete(name, WriteOptions{}); err != nil || out.Gone {
		w.t.Fatalf("the first delete: %+v, %v", out, err)
	}
	w.fresh()
}

// fresh waits until the cache has everything.
func (w *world) fresh() {
	w.t.Helper()
	if _, err := w.cache.Fresh(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) delete(name string, opt WriteOptions) (*Deleted, error) {
	return w.maps.Delete(w.t.Context(), "default", name, metav1.DeleteOptions{}, opt)
}

// replace lets an ending object go, and creates another one of the same name.
func (w *world) replace(name string) {
	w.t.Helper()
	w.change(name, func(m *corev1.ConfigMap) { m.Finalizers = nil })
	w.add(name)
}

func (w *world) change(name string, change func(*corev1.ConfigMap)) {
	w.t.Helper()
	_, _, err := w.maps.Update(w.t.Context(), "default", name, func(_ context.Context, old resource.Object) (resource.Object, error) {
		m := old.DeepCopyObject().(*corev1.ConfigMap)
		change(m)
		return m, nil
	}, UpdateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) exists(name string) bool {
	w.t.Helper()
	_, err := w.maps.getStored(w.t.Context(), w.maps.key("default", name), name, Freshness{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
	return err == nil
}

// whoever writes while the cache of the server under test is held.
var writers = map[string]func(*world) *world{
	"one server":  func(w *world) *world { return w },
	"two servers": func(w *world) *world { return w.again() },
}

func TestADeleteReachesTheObjectThatHasReplacedTheCachedOne(t *testing.T) {
	for name, writer := range writers {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 0)
			other := writer(w)
			w.ending("x")
			other.fresh()
			defer w.store.Hold()()
			other.replace("x")
			if out, err := w.delete("x", WriteOptions{}); err != nil || !out.Gone {
				t.Errorf("the delete of the new object: %+v, %v", out, err)
			}
			if w.exists("x") {
				t.Error("the delete was acknowledged, and the object is there")
			}
		})
	}
}

func TestADryRunDoesNotAnswerFromAnOldState(t *testing.T) {
	w := newWorld(t, 0)
	w.ending("replaced")
	w.ending("gone")
	other := w.again()
	defer w.store.Hold()()
	other.replace("replaced")
	other.change("gone", func(m *corev1.ConfigMap) { m.Finalizers = nil })
	if out, err := w.delete("replaced", WriteOptions{DryRun: true}); err != nil || !out.Gone {
		t.Errorf("a delete: %+v, %v", out, err)
	}
	_, _, err := w.maps.Update(t.Context(), "default", "gone", func(_ context.Context, old resource.Object) (resource.Object, error) {
		return old.DeepCopyObject().(resource.Object), nil
	}, UpdateOptions{WriteOptions: WriteOptions{DryRun: true}})
	if !apierrors.IsNotFound(err) {
		t.Errorf("an update of an object that is gone: %v", err)
	}
}

func TestARefusalIsConfirmedWithTheStore(t *testing.T) {
	w := newWorld(t, 0)
	w.add("x")
	w.fresh()
	other := w.again()
	defer w.store.Hold()()
	other.change("x", func(m *corev1.ConfigMap) { m.Data = map[string]string{"ready": "yes"} })
	_, _, err := w.maps.Update(t.Context(), "default", "x", func(_ context.Context, old resource.Object) (resource.Object, error) {
		m := old.DeepCopyObject().(*corev1.ConfigMap)
		if m.Data["ready"] == "" {
			return nil, context.Canceled // an error without a status
		}
		m.Data["used"] = "yes"
		return m, nil
	}, UpdateOptions{})
	if err != nil {
		t.Error("an update was refused because of an old state:", err)
	}
}

func TestADeletedCollectionLeavesWhatDoesNotBelongToItAnyMore(t *testing.T) {
	for name, selected := range map[string]labels.Selector{"of a namespace": nil, "of labels": labels.SelectorFromSet(labels.Set{"app": "a"})} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 0)
			for _, name := range []string{"a-first", "b-replaced", "c-left", "d-changed"} {
				w.add(name)
				w.change(name, func(m *corev1.ConfigMap) { m.Labels = map[string]string{"app": "a"} })
			}
			// The first object of the collection is deleted before the others. Meanwhile these change.
			w.maps.registry.Admission = []Admission{{Validate: func(_ context.Context, c *Change) error {
				if c.Operation != Delete || !c.Collection || c.Name != "a-first" {
					return nil
				}
				if _, err := w.delete("b-replaced", WriteOptions{}); err != nil {
					return err
				}
				w.add("b-replaced")
				w.change("b-replaced", func(m *corev1.ConfigMap) { m.Labels = map[string]string{"app": "a"} })
				w.change("c-left", func(m *corev1.ConfigMap) { m.Labels["app"] = "b" })
				w.change("d-changed", func(m *corev1.ConfigMap) { m.Data = map[string]string{"k": "v"} })
				return nil
			}}}
			q := ListQuery{Selection: Select(w.maps.kind.Faces[0], "default", "", selected, nil)}
			if _, err := w.maps.DeleteCollection(t.Context(), q, metav1.DeleteOptions{}, WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			for name, stays := range map[string]bool{"a-first": false, "b-replaced": true, "c-left": selected != nil, "d-changed": false} {
				if w.exists(name) != stays {
					t.Errorf("%s is there: %v", name, !stays)
				}
			}
		})
	}
}
