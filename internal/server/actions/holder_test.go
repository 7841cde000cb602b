package actions

import (
	"crypto/elliptic"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/registry/registrytest"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/store/memory"
	"github.com/millrace/millrace/internal/server/store/storetest"
)

// server is one of several API servers on a store, as far as tokens need it.
type server struct {
	t   *testing.T
	log *storetest.LateLog
	*registry.Registry
}

func (s *server) of(of string) *registry.Storage {
	s.t.Helper()
	kind, _ := s.Catalogue.Kind(schema.GroupResource{Resource: of})
	storage, err := s.Storage(kind)
	if err != nil {
		s.t.Fatal(err)
	}
	return storage
}

// create creates an object in the namespace "n", and returns how a token refers to it.
func (s *server) create(of string, o resource.Object) *reference {
	s.t.Helper()
	storage := s.of(of)
	storage.Kind().Default(o)
	if _, err := storage.Create(s.t.Context(), "n", o, registry.WriteOptions{}); err != nil {
		s.t.Fatal(err)
	}
	return &reference{o.GetName(), string(o.GetUID())}
}

// A token is refused when the server knows that its pod is gone. While its log is late it may take the token; what
// another server has just made it must not call missing.
func TestATokenIsTakenAsLongAsTheLogHidesThatItsPodIsGone(t *testing.T) {
	inner := memory.New(memory.Options{})
	defer inner.Close()
	late := &server{t: t, log: storetest.NewLateLog(inner)}
	late.Registry = registrytest.Open(t, late.log)
	other := &server{t: t, Registry: registrytest.Open(t, inner)}
	issuer := newIssuer(t, IssuerOptions{Key: ecdsaKey(t, elliptic.P256()), Names: []string{"i"}, Registry: late.Registry})

	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	}
	account := late.create("serviceaccounts", &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	check := func(p *reference) error {
		return issuer.checkBound(t.Context(), &bound{Namespace: "n", ServiceAccount: *account, Pod: p})
	}
	old := late.create("pods", pod("old"))
	if err := check(old); err != nil {
		t.Fatal(err)
	}
	release := late.log.Hold()
	if _, err := other.of("pods").Delete(t.Context(), "n", "old", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}, registry.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	fresh := other.create("pods", pod("fresh"))
	if err := check(fresh); err != nil {
		t.Errorf("the token of a pod that another server has made is refused: %v", err)
	}
	if err := check(old); err != nil {
		t.Errorf("the deletion is known though the log is held: %v", err)
	}
	release()
	for err := check(old); !errors.Is(err, auth.ErrUnauthorized); err = check(old) {
		if err != nil || t.Context().Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}
