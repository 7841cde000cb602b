package aggregation_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/millrace/millrace/internal/server/aggregation"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/builtin"
	"github.com/millrace/millrace/internal/server/store/memory"
	"github.com/millrace/millrace/internal/server/watchcache"
)

var flunders = schema.GroupVersion{Group: "wardle.example", Version: "v1"}

// world is a registry, and an aggregator that follows it.
type world struct {
	testing.TB
	reg *registry.Registry
	a   *aggregation.Aggregator
}

func newWorld(t testing.TB, backends map[schema.GroupVersion]aggregation.Backend) *world {
	t.Helper()
	w := &world{TB: t}
	s := memory.New(memory.Options{})
	cache := watchcache.New(s, watchcache.Options{Root: registry.Root})
	catalogue, err := resource.NewCatalogue(builtin.Kinds()...)
	w.must(err)
	w.reg, err = registry.New(registry.Options{Store: s, Cache: cache, Catalogue: catalogue})
	w.must(err)
	w.a = aggregation.New(aggregation.Options{Registry: w.reg, Backends: backends})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{}, 3)
	for _, run := range []func(context.Context) error{cache.Run, w.a.Run, w.a.KeepRegistered} {
		go func() { run(ctx); done <- struct{}{} }()
	}
	t.Cleanup(func() { cancel(); <-done; <-done; <-done })
	w.must(cache.WaitReady(t.Context()))
	w.must(w.a.Register(t.Context()))
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) storage(group, of string) *registry.Storage {
	w.Helper()
	kind, ok := w.reg.Catalogue.Kind(schema.GroupResource{Group: group, Resource: of})
	if !ok {
		w.Fatalf("%s are not served", of)
	}
	s, err := w.reg.Storage(kind)
	w.must(err)
	return s
}

func (w *world) create(group, of string, o resource.Object) {
	w.Helper()
	s := w.storage(group, of)
	s.Kind().Default(o)
	_, err := s.Create(w.Context(), o.GetNamespace(), o, registry.WriteOptions{})
	w.must(err)
}

// serveElsewhere lets another server answer for a group version.
func (w *world) serveElsewhere(gv schema.GroupVersion, h http.Handler) *httptest.Server {
	w.Helper()
	server := httptest.NewUnstartedServer(h)
	server.EnableHTTP2 = true
	server.StartTLS()
	w.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	w.must(err)
	number, err := strconv.ParseInt(port, 10, 32)
	w.must(err)
	w.create("", "services", &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "example"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	})
	w.create("apiregistration.k8s.io", "apiservices", remote(gv, int32(number)))
	return server
}

func remote(gv schema.GroupVersion, port int32) *v1.APIService {
	return &v1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: gv.Version + "." + gv.Group},
		Spec: v1.APIServiceSpec{
			Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: 2000, VersionPriority: 10, InsecureSkipTLSVerify: true,
			Service: &v1.ServiceReference{Namespace: "default", Name: "example", Port: &port},
		},
	}
}

// condition waits until an APIService has a condition with a reason.
func (w *world) condition(name, reason string) v1.APIServiceCondition {
	w.Helper()
	s := w.storage("apiregistration.k8s.io", "apiservices")
	watch, err := s.Watch(w.Context(), registry.WatchQuery{Selection: registry.Select(s.Kind().Faces[0], "", name, nil, nil), Initial: true})
	w.must(err)
	defer watch.Close()
	all := watch.Initial
	for {
		for _, o := range all {
			made, err := s.Kind().Decode(w.Context(), o.Value(), o.Revision.String())
			w.must(err)
			for _, c := range made.(*v1.APIService).Status.Conditions {
				if c.Reason == reason {
					return c
				}
			}
		}
		all = nil
		e, ok, err := watch.Next()
		w.must(err)
		if ok {
			all = append(all, e.Object)
			continue
		}
		select {
		case <-watch.Wake():
		case <-w.Context().Done():
			w.Fatalf("%s has never had the reason %s", name, reason)
		}
	}
}

// ask sends a request of a user to whoever answers for a group version.
func (w *world) ask(gv schema.GroupVersion, u auth.User, q *http.Request) *http.Response {
	w.Helper()
	h := w.a.Handler(gv)
	if h == nil {
		w.Fatalf("nobody else answers for %v", gv)
	}
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, q.WithContext(auth.WithUser(q.Context(), u)))
	return answer.Result()
}

// bundle is the certificate of a server in PEM.
func bundle(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// change alters an object of the core group.
func (w *world) change(of, name string, how func(*corev1.Service)) {
	w.Helper()
	_, _, err := w.storage("", of).Update(w.Context(), "default", name, func(_ context.Context, old resource.Object) (resource.Object, error) {
		o := old.DeepCopyObject().(*corev1.Service)
		how(o)
		return o, nil
	}, registry.UpdateOptions{})
	w.must(err)
}

// point gives an APIService the spec of another one.
func (w *world) point(name string, to *v1.APIService) {
	w.Helper()
	_, _, err := w.storage("apiregistration.k8s.io", "apiservices").Update(w.Context(), "", name, func(_ context.Context, old resource.Object) (resource.Object, error) {
		o := old.DeepCopyObject().(*v1.APIService)
		o.Spec = to.Spec
		return o, nil
	}, registry.UpdateOptions{})
	w.must(err)
}

func portOf(t testing.TB, s *httptest.Server) int32 {
	t.Helper()
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return int32(n)
}
