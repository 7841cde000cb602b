// Package admissiontest gives tests of admission plugins a registry in memory, and asks it as a user would.
package admissiontest

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/builtin"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/memory"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// World is a registry with one namespace, "n", whose label team is "a".
type World struct {
	testing.TB
	*registry.Registry
	// Store is where the registry keeps its objects.
	Store store.Store
	// Told and Noted are the warnings and the annotations of the audit event that requests got so far.
	Told  []string
	Noted map[string]string
}

// Options say what a World is made of.
type Options struct {
	// Store is that of another World, whose namespace this one then has too. Nil is a store of its own.
	Store store.Store
	// Complete changes the kinds before they are served.
	Complete func([]*resource.Kind)
	// Admission makes the plugins of a registry.
	Admission func(*registry.Registry) []registry.Admission
}

// New makes a World, which ends with the test.
func New(t testing.TB, o Options) *World {
	t.Helper()
	w := &World{TB: t, Store: o.Store, Noted: map[string]string{}}
	if o.Store == nil {
		w.Store = memory.New(memory.Options{})
		t.Cleanup(func() { w.Store.Close() })
	}
	kinds := builtin.Kinds()
	if o.Complete != nil {
		o.Complete(kinds)
	}
	catalogue, err := resource.NewCatalogue(kinds...)
	w.Must(err)
	cache := watchcache.New(w.Store, watchcache.Options{Root: registry.Root})
	w.Registry, err = registry.New(registry.Options{Store: w.Store, Cache: cache, Catalogue: catalogue})
	w.Must(err)
	w.Registry.Admission = o.Admission(w.Registry)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); cache.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	w.Must(cache.WaitReady(ctx))
	if o.Store == nil {
		w.Create("namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"team": "a"}}})
	}
	return w
}

// Must ends the test if there is an error.
func (w *World) Must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// Of is the storage of a kind: its resource, and behind a dot its group.
func (w *World) Of(kind string) *registry.Storage {
	w.Helper()
	of, group, _ := strings.Cut(kind, ".")
	k, ok := w.Catalogue.Kind(schema.GroupResource{Group: group, Resource: of})
	if !ok {
		w.Fatalf("no kind %s", of)
	}
	s, err := w.Storage(k)
	w.Must(err)
	return s
}

// Options are those of a write whose warnings and annotations are kept.
func (w *World) Options() registry.WriteOptions {
	return registry.WriteOptions{Warn: func(s string) { w.Told = append(w.Told, s) }, Annotate: func(k, v string) { w.Noted[k] = v }}
}

// Try creates an object as alice, one of the devs, in the namespace that it says or else in "n".
func (w *World) Try(kind string, o resource.Object, with registry.WriteOptions) (resource.Object, error) {
	s := w.Of(kind)
	s.Kind().Default(o)
	namespace := o.GetNamespace()
	if namespace == "" {
		namespace = within(s)
	}
	ctx := resource.WithCall(context.Background(), resource.Call{User: "alice", Groups: []string{"devs"}})
	stored, err := s.Create(ctx, namespace, o, with)
	if err != nil {
		return nil, err
	}
	return stored.Object, nil
}

// Create creates an object, and ends the test if that is refused.
func (w *World) Create(kind string, o resource.Object) resource.Object {
	w.Helper()
	out, err := w.Try(kind, o, w.Options())
	w.Must(err)
	return out
}

// Update changes an object of the namespace "n" or of none.
func (w *World) Update(kind, name string, change func(resource.Object)) (resource.Object, error) {
	return w.UpdateView(kind, within(w.Of(kind)), name, "", change)
}

// UpdateView changes a view of an object.
func (w *World) UpdateView(kind, namespace, name, view string, change func(resource.Object)) (resource.Object, error) {
	stored, _, err := w.Of(kind).Update(context.Background(), namespace, name, func(_ context.Context, old resource.Object) (resource.Object, error) {
		o := old.DeepCopyObject().(resource.Object)
		change(o)
		return o, nil
	}, registry.UpdateOptions{View: view, WriteOptions: w.Options()})
	if err != nil {
		return nil, err
	}
	return stored.Object, nil
}

// Remove deletes an object of the namespace "n" or of none.
func (w *World) Remove(kind, name string) error {
	s := w.Of(kind)
	_, err := s.Delete(context.Background(), within(s), name, metav1.DeleteOptions{}, w.Options())
	return err
}

func within(s *registry.Storage) string {
	if s.Kind().Namespaced {
		return "n"
	}
	return ""
}

// Refused checks that a request ended with an error that has these words.
func Refused(t testing.TB, err error, words string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("got %v, want %s", err, words)
	}
}

// ConfigMap is a config map of the namespace "n" with keys and values.
func ConfigMap(name string, data ...string) *corev1.ConfigMap {
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n"}, Data: map[string]string{}}
	for i := 0; i+1 < len(data); i += 2 {
		c.Data[data[i]] = data[i+1]
	}
	return c
}
