package admission_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/server/admission"
	"github.com/millrace/millrace/server/registry"
	"github.com/millrace/millrace/server/resource"
	"github.com/millrace/millrace/server/resource/builtin"
	"github.com/millrace/millrace/server/store/memory"
	"github.com/millrace/millrace/server/watchcache"
)

// server is a registry with the default plugins, and one namespace, "n".
type server struct {
	*registry.Registry
	t testing.TB
}

func newServer(t testing.TB, o admission.Options) *server {
	t.Helper()
	s := memory.New(memory.Options{})
	t.Cleanup(func() { s.Close() })
	catalogue, err := resource.NewCatalogue(builtin.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	w := &server{t: t}
	o.Registry = func() *registry.Registry { return w.Registry }
	cache := watchcache.New(s, watchcache.Options{Root: registry.Root})
	w.Registry, err = registry.New(registry.Options{Store: s, Cache: cache, Catalogue: catalogue, Admission: admission.Default(o)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cache.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	if err := cache.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	w.create("namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	return w
}

func (w *server) storage(of string) *registry.Storage {
	w.t.Helper()
	of, group, _ := strings.Cut(of, ".")
	k, ok := w.Catalogue.Kind(schema.GroupResource{Group: group, Resource: of})
	if !ok {
		w.t.Fatalf("no kind %s", of)
	}
	s, err := w.Storage(k)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *server) tryCreate(of string, o resource.Object, opt registry.WriteOptions) (resource.Object, error) {
	s := w.storage(of)
	namespace := ""
	if s.Kind().Namespaced {
		namespace = o.GetNamespace()
		if namespace == "" {
			namespace = "n"
		}
	}
	s.Kind().Default(o)
	stored, err := s.Create(context.Background(), namespace, o, opt)
	if err != nil {
		return nil, err
	}
	return stored.Object, nil
}

// create returns when the cache has the object too.
func (w *server) create(of string, o resource.Object) resource.Object {
	w.t.Helper()
	out, err := w.tryCreate(of, o, registry.WriteOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.settle()
	return out
}

func (w *server) settle() {
	w.t.Helper()
	if _, err := w.Cache.Fresh(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *server) tryUpdate(of, namespace, name, view string, change func(resource.Object)) (resource.Object, error) {
	s := w.storage(of)
	stored, _, err := s.Update(context.Background(), namespace, name, func(_ context.Context, old resource.Object) (resource.Object, error) {
		o := old.DeepCopyObject().(resource.Object)
		change(o)
		return o, nil
	}, registry.UpdateOptions{View: view})
	if err != nil {
		return nil, err
	}
	w.settle()
	return stored.Object, nil
}

func (w *server) update(of, namespace, name, view string, change func(resource.Object)) resource.Object {
	w.t.Helper()
	out, err := w.tryUpdate(of, namespace, name, view, change)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

func (w *server) read(of, namespace, name string) resource.Object {
	w.t.Helper()
	s := w.storage(of)
	o, err := s.Get(context.Background(), namespace, name, registry.Freshness{})
	if err != nil {
		w.t.Fatal(err)
	}
	d, err := s.Kind().Decode(context.Background(), o.Value(), o.Revision.String())
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

// refused checks that an error is a refusal with these words.
func refused(t testing.TB, err error, words string) {
	t.Helper()
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), words) {
		t.Errorf("got %v, want a refusal with %q", err, words)
	}
}

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

func pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: meta(name), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	for _, c := range change {
		c(p)
	}
	return p
}
