package allocation_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/protobuf"
	"github.com/millrace/millrace/internal/server/allocation"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/builtin"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/memory"
	"github.com/millrace/millrace/internal/server/watchcache"
)

var (
	services    = schema.GroupResource{Resource: "services"}
	ipAddresses = schema.GroupResource{Group: "networking.k8s.io", Resource: "ipaddresses"}
	cidrs       = schema.GroupResource{Group: "networking.k8s.io", Resource: "servicecidrs"}
)

// server is one API server's registry.
type server struct {
	*registry.Registry
	t     *testing.T
	alloc *allocation.Services
	now   time.Time
}

func newStore(t *testing.T) store.Store {
	s := memory.New(memory.Options{})
	t.Cleanup(func() { s.Close() })
	return s
}

// newServer starts a server on a store. Its clock stands still until the test advances it.
func newServer(t *testing.T, s store.Store, ranges ...string) *server {
	t.Helper()
	w := &server{t: t, now: time.Now()}
	catalogue, err := resource.NewCatalogue(builtin.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	cache := watchcache.New(s, watchcache.Options{Root: registry.Root})
	if w.Registry, err = registry.New(registry.Options{Store: s, Cache: cache, Catalogue: catalogue}); err != nil {
		t.Fatal(err)
	}
	o := allocation.Options{Registry: w.Registry, Now: func() time.Time { return w.now }}
	for _, r := range ranges {
		o.Ranges = append(o.Ranges, netip.MustParsePrefix(r))
	}
	if w.alloc, err = allocation.New(o); err != nil {
		t.Fatal(err)
	}
	w.Registry.Allocate = w.alloc
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
	if err := w.alloc.Prepare(ctx); err != nil {
		t.Fatal(err)
	}
	return w
}

func (se *server) storage(gr schema.GroupResource) *registry.Storage {
	se.t.Helper()
	k, ok := se.Catalogue.Kind(gr)
	if !ok {
		se.t.Fatalf("no kind %v", gr)
	}
	s, err := se.Storage(k)
	if err != nil {
		se.t.Fatal(err)
	}
	return s
}

func (se *server) tryCreate(svc *corev1.Service, opt registry.WriteOptions) (*corev1.Service, error) {
	s := se.storage(services)
	svc.Namespace = "default"
	s.Kind().Default(svc)
	stored, err := s.Create(context.Background(), "default", svc, opt)
	if err != nil {
		return nil, err
	}
	return stored.Object.(*corev1.Service), nil
}

func (se *server) create(svc *corev1.Service) *corev1.Service {
	se.t.Helper()
	out, err := se.tryCreate(svc, registry.WriteOptions{})
	if err != nil {
		se.t.Fatal(err)
	}
	return out
}

func (se *server) tryUpdate(name string, change func(*corev1.Service)) (*corev1.Service, error) {
	s := se.storage(services)
	stored, _, err := s.Update(context.Background(), "default", name, func(_ context.Context, old resource.Object) (resource.Object, error) {
		o := old.DeepCopyObject().(*corev1.Service)
		change(o)
		s.Kind().Default(o)
		return o, nil
	}, registry.UpdateOptions{})
	if err != nil {
		return nil, err
	}
	return stored.Object.(*corev1.Service), nil
}

func (se *server) update(name string, change func(*corev1.Service)) *corev1.Service {
	se.t.Helper()
	out, err := se.tryUpdate(name, change)
	if err != nil {
		se.t.Fatal(err)
	}
	return out
}

func (se *server) delete(gr schema.GroupResource, namespace, name string) {
	se.t.Helper()
	if _, err := se.storage(gr).Delete(context.Background(), namespace, name, metav1.DeleteOptions{}, registry.WriteOptions{}); err != nil {
		se.t.Fatal(err)
	}
}

// claims returns the service of each claimed address.
func (se *server) claims() map[string]string {
	se.t.Helper()
	s := se.storage(ipAddresses)
	list, err := s.List(context.Background(), registry.ListQuery{})
	if err != nil {
		se.t.Fatal(err)
	}
	out := map[string]string{}
	for _, o := range list.Objects {
		d, err := s.Kind().Decode(se.t.Context(), o.Value(), o.Revision.String())
		if err != nil {
			se.t.Fatal(err)
		}
		out[d.GetName()] = d.(*networkingv1.IPAddress).Spec.ParentRef.Name
	}
	return out
}

// taken reports whether a node port is allocated.
func (se *server) taken(port int32) bool {
	se.t.Helper()
	e, err := se.Store.Get(context.Background(), "/registry/ranges/servicenodeports", store.GetOptions{})
	if err != nil {
		se.t.Fatal(err)
	}
	env, err := protobuf.Open(e.Value)
	if err != nil {
		se.t.Fatal(err)
	}
	var r corev1.RangeAllocation
	if err := r.Unmarshal(env.Raw); err != nil {
		se.t.Fatal(err)
	}
	if r.Range != "30000-32767" {
		se.t.Fatalf("range is %q", r.Range)
	}
	i := int(port - 30000)
	at := len(r.Data) - 1 - i/8 // the lowest ports come last
	return at >= 0 && r.Data[at]&(1<<(i%8)) != 0
}

func service(name string, change ...func(*corev1.ServiceSpec)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Port: 80}},
	}}
	for _, c := range change {
		c(&s.Spec)
	}
	return s
}

func ofType(t corev1.ServiceType) func(*corev1.ServiceSpec) {
	return func(s *corev1.ServiceSpec) { s.Type = t }
}
