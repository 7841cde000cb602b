package node_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/auth/node"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/builtin"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/memory"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// world is a registry with the restriction of nodes, and an authorizer of nodes.
type world struct {
	testing.TB
	ctx   context.Context
	store store.Store
	reg   *registry.Registry
	nodes *node.Authorizer
}

// newWorld is on a store of its own, or shares one as another server does.
func newWorld(t testing.TB, s store.Store) *world {
	t.Helper()
	if s == nil {
		s = memory.New(memory.Options{})
	}
	w := &world{TB: t, ctx: t.Context(), store: s}
	cache := watchcache.New(s, watchcache.Options{Root: registry.Root, WindowBytes: 64 << 10})
	catalogue, err := resource.NewCatalogue(builtin.Kinds()...)
	w.must(err)
	w.reg, err = registry.New(registry.Options{Store: s, Cache: cache, Catalogue: catalogue})
	w.must(err)
	w.nodes = node.New(w.reg)
	t.Cleanup(w.nodes.Close)
	w.reg.Admission = []registry.Admission{node.Restriction(w.reg, w.nodes)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); cache.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	w.must(cache.WaitReady(w.ctx))
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func kubelet(of string) auth.User {
	return auth.User{Name: auth.NodePrefix + of, Groups: []string{auth.Nodes, auth.Authenticated}}
}

// as is the context of a request of a node's kubelet; without a name it is the server's own.
func (w *world) as(of string) context.Context {
	if of == "" {
		return w.ctx
	}
	u := kubelet(of)
	return resource.WithCall(w.ctx, resource.Call{User: u.Name, Groups: u.Groups})
}

func (w *world) storage(gr schema.GroupResource) *registry.Storage {
	w.Helper()
	kind, ok := w.reg.Catalogue.Kind(gr)
	if !ok {
		w.Fatalf("%v is not served", gr)
	}
	s, err := w.reg.Storage(kind)
	w.must(err)
	return s
}

// create makes an object in the name of a node, or of the server.
func (w *world) create(by string, gr schema.GroupResource, o resource.Object) error {
	s := w.storage(gr)
	s.Kind().Default(o)
	_, err := s.Create(w.as(by), o.GetNamespace(), o, registry.WriteOptions{})
	return err
}

var (
	ofPods  = schema.GroupResource{Resource: "pods"}
	ofNodes = schema.GroupResource{Resource: "nodes"}
)

// change updates an object in the name of a node, through a view of it.
func (w *world) change(by, view string, gr schema.GroupResource, namespace, name string, do func(resource.Object)) error {
	_, _, err := w.storage(gr).Update(w.as(by), namespace, name, func(_ context.Context, old resource.Object) (resource.Object, error) {
		o := old.DeepCopyObject().(resource.Object)
		do(o)
		return o, nil
	}, registry.UpdateOptions{View: view})
	return err
}

// pod is one on a node, with some volumes.
func pod(name, on string, volumes ...corev1.Volume) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}, Spec: corev1.PodSpec{
		NodeName: on, ServiceAccountName: "robot", Volumes: volumes, Containers: []corev1.Container{{Name: "main", Image: "example/image"}}}}
}

func secretVolume(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}}
}

func claimVolume(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}
}

// verdict asks whether a node may do something to an object: "get", "secrets", "s".
func (w *world) verdict(of, verb, resource, namespace, name string, also ...func(*auth.Attributes)) auth.Verdict {
	at := auth.Attributes{User: kubelet(of), Verb: verb, IsResource: true, Version: "v1", Resource: resource, Namespace: namespace, Name: name}
	for _, f := range also {
		f(&at)
	}
	return w.nodes.Authorize(w.ctx, at)
}

// may is verdict without the reason.
func (w *world) may(of, verb, resource, namespace, name string, also ...func(*auth.Attributes)) bool {
	w.Helper()
	v := w.verdict(of, verb, resource, namespace, name, also...)
	w.must(v.Err)
	return v.Allowed()
}
