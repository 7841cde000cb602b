package rbac_test

import (
	"context"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/auth/rbac"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	rbackinds "github.com/millrace/millrace/internal/server/resource/rbac"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/memory"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// world is a registry of roles and bindings, with an authorizer that follows it.
type world struct {
	testing.TB
	ctx   context.Context
	store store.Store
	reg   *registry.Registry
	rbac  *rbac.Authorizer
}

// newWorld is on a store of its own, or shares one as another server does, which asks the store before it allows a
// request.
func newWorld(t testing.TB, s store.Store) *world {
	t.Helper()
	shared := s != nil
	if !shared {
		s = memory.New(memory.Options{})
	}
	w := &world{TB: t, ctx: t.Context(), store: s}
	cache := watchcache.New(s, watchcache.Options{Root: registry.Root})
	catalogue, err := resource.NewCatalogue(rbackinds.Kinds()...)
	w.must(err)
	w.reg, err = registry.New(registry.Options{Store: s, Cache: cache, Catalogue: catalogue})
	w.must(err)
	w.rbac = rbac.New(rbac.Options{Registry: w.reg, Shared: shared})
	w.reg.Admission = []registry.Admission{w.rbac.Escalation(auth.Union{auth.MastersMay{}, w.rbac})}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{}, 2)
	go func() { cache.Run(ctx); done <- struct{}{} }()
	go func() { w.rbac.Run(ctx); done <- struct{}{} }()
	t.Cleanup(func() { cancel(); <-done; <-done })
	w.must(cache.WaitReady(w.ctx))
	w.must(w.rbac.WaitReady(w.ctx))
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) storage(of string) *registry.Storage {
	w.Helper()
	kind, ok := w.reg.Catalogue.Kind(rbacv1.Resource(of))
	if !ok {
		w.Fatalf("%s are not served", of)
	}
	s, err := w.reg.Storage(kind)
	w.must(err)
	return s
}

// as is the context of a request of a user.
func (w *world) as(u auth.User) context.Context {
	return resource.WithCall(w.ctx, resource.Call{User: u.Name, Groups: u.Groups})
}

// create makes an object for a user; the zero one is the server itself.
func (w *world) create(u auth.User, of string, o resource.Object) error {
	s := w.storage(of)
	s.Kind().Default(o)
	_, err := s.Create(w.as(u), o.GetNamespace(), o, registry.WriteOptions{})
	return err
}

func (w *world) delete(of, namespace, named string) {
	w.Helper()
	_, err := w.storage(of).Delete(w.ctx, namespace, named, metav1.DeleteOptions{}, registry.WriteOptions{})
	w.must(err)
}

func meta(namespace, named string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: named}
}

func rule(verb, group, resource string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names}
}

func clusterRole(named string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: meta("", named), Rules: rules}
}

func role(namespace, named string, rules ...rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: meta(namespace, named), Rules: rules}
}

func user(named string) rbacv1.Subject {
	return rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: named}
}

func group(named string) rbacv1.Subject {
	return rbacv1.Subject{Kind: "Group", APIGroup: rbacv1.GroupName, Name: named}
}

func clusterBinding(named, to string, subjects ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{ObjectMeta: meta("", named), Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: to}}
}

func binding(namespace, named, kind, to string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: meta(namespace, named), Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: to}}
}

// may asks for "get pods" and the like: verb, resource, and perhaps a name.
func (w *world) may(u auth.User, namespace, verb, resource string, named ...string) bool {
	w.Helper()
	at := auth.Attributes{User: u, Verb: verb, IsResource: true, Resource: resource, Namespace: namespace}
	if len(named) > 0 {
		at.Name = named[0]
	}
	v := w.rbac.Authorize(w.ctx, at)
	w.must(v.Err)
	return v.Allowed()
}
