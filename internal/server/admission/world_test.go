package admission_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/admission"
	"github.com/millrace/millrace/internal/server/admission/internal/admissiontest"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// server is a registry with the default plugins.
type server struct {
	*admissiontest.World
	t testing.TB
}

func newServer(t testing.TB, o admission.Options) *server {
	t.Helper()
	w := &server{t: t, World: admissiontest.New(t, admissiontest.Options{Admission: func(current *registry.Registry) []registry.Admission {
		o.Registry = current
		return admission.Default(o)
	}})}
	w.settle()
	return w
}

// create returns when the cache has the object too.
func (se *server) create(of string, o resource.Object) resource.Object {
	se.t.Helper()
	out, err := se.Try(of, o, registry.WriteOptions{})
	if err != nil {
		se.t.Fatal(err)
	}
	se.settle()
	return out
}

func (se *server) settle() {
	se.t.Helper()
	if _, err := se.Cache.Fresh(context.Background()); err != nil {
		se.t.Fatal(err)
	}
}

func (se *server) tryUpdate(of, namespace, name, view string, change func(resource.Object)) (resource.Object, error) {
	o, err := se.UpdateView(of, namespace, name, view, change)
	if err == nil {
		se.settle()
	}
	return o, err
}

func (se *server) update(of, namespace, name, view string, change func(resource.Object)) resource.Object {
	se.t.Helper()
	out, err := se.tryUpdate(of, namespace, name, view, change)
	if err != nil {
		se.t.Fatal(err)
	}
	return out
}

func (se *server) read(of, namespace, name string) resource.Object {
	se.t.Helper()
	s := se.Of(of)
	o, err := s.Get(context.Background(), namespace, name, registry.Freshness{})
	if err != nil {
		se.t.Fatal(err)
	}
	d, err := s.Kind().Decode(context.Background(), o.Value(), o.Revision.String())
	if err != nil {
		se.t.Fatal(err)
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
