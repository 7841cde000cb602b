// Package objects makes the objects that every cluster begins with: namespaces, priority classes, the Service of the
// API servers, cluster-info, roles, and the objects of API Priority and Fairness. What somebody has changed about them
// is kept where Kubernetes keeps it.
package objects

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/millrace/millrace/internal/assembly"
	"github.com/millrace/millrace/internal/assembly/access"
	"github.com/millrace/millrace/internal/assembly/address"
	"github.com/millrace/millrace/internal/assembly/storage"
	"github.com/millrace/millrace/internal/server/auth/rbac"
	"github.com/millrace/millrace/internal/server/bootstrap"
	"github.com/millrace/millrace/internal/server/endpoints"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/scheduling"
)

const (
	infoNamespace = "kube-public"
	infoName      = "cluster-info"
	infoKey       = "kubeconfig"
)

// Options say what the objects depend on.
type Options struct {
	// ServiceAddress is the one of the Service "kubernetes".
	ServiceAddress netip.Addr
	Logger         *slog.Logger
}

// Objects is the part.
type Objects struct {
	o       Options
	address *address.Address
	storage *storage.Storage
	access  *access.Access
}

// New makes the part. Nothing is written before Start.
func New(o Options, a *address.Address, s *storage.Storage, who *access.Access) *Objects {
	return &Objects{o: o, address: a, storage: s, access: who}
}

// Start makes the objects, and returns when the roles among them are followed.
func (ob *Objects) Start(ctx context.Context, l *assembly.List) error {
	reg := ob.storage.Registry
	if err := ob.bootstrap(ctx); err != nil {
		return err
	}
	if err := ob.publish(ctx); err != nil {
		return err
	}
	if err := rbac.Reconcile(ctx, reg, policy()); err != nil {
		return err
	}
	flows := &bootstrap.Flows{Registry: reg, Logger: ob.o.Logger, Every: CheckEvery(ob.address)}
	if err := flows.Ensure(ctx); err != nil {
		return err
	}
	l.Run("flow control objects", flows.Run)
	return ob.access.Permissions.Follow(ctx, l)
}

// CheckEvery returns how often the objects are checked that every cluster has: rarely in a cluster without a port,
// where only this process can change one. Zero is the default.
func CheckEvery(a *address.Address) time.Duration {
	if a.Alone() {
		return time.Hour
	}
	return 0
}

// bootstrap makes namespaces, priority classes, and the Service of the API servers.
func (ob *Objects) bootstrap(ctx context.Context) error {
	for _, name := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := ob.ensure(ctx, schema.GroupResource{Resource: "namespaces"}, namespace); err != nil {
			return err
		}
	}
	for _, class := range scheduling.SystemClasses() {
		if err := ob.ensure(ctx, schema.GroupResource{Group: "scheduling.k8s.io", Resource: "priorityclasses"}, class); err != nil {
			return err
		}
	}
	return ob.ensure(ctx, schema.GroupResource{Resource: "services"}, endpoints.Service(ob.o.ServiceAddress, ob.address.Port()))
}

// ensure creates an object unless it exists.
func (ob *Objects) ensure(ctx context.Context, gr schema.GroupResource, o resource.Object) error {
	storage, err := ob.storageOf(gr)
	if err != nil {
		return err
	}
	if _, err := storage.Get(ctx, o.GetNamespace(), o.GetName(), registry.Freshness{Any: true}); err == nil {
		return nil
	}
	storage.Kind().Default(o)
	_, err = storage.Create(ctx, o.GetNamespace(), o, registry.WriteOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create %v %s: %w", gr, o.GetName(), err)
	}
	return nil
}

func (ob *Objects) storageOf(gr schema.GroupResource) (*registry.Storage, error) {
	k, ok := ob.storage.Registry.Catalogue.Kind(gr)
	if !ok {
		return nil, fmt.Errorf("there is no kind %v", gr)
	}
	return ob.storage.Registry.Storage(k)
}

// publish writes the server's address and CA certificate into cluster-info. On an external etcd, where several servers
// may share the cluster, an existing cluster-info is kept. A cluster whose keys are all given has somebody who makes
// its cluster-info too, if it wants one.
func (ob *Objects) publish(ctx context.Context) error {
	if ob.address.Alone() || ob.access.OnlyGiven() {
		return nil
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[""] = &clientcmdapi.Cluster{Server: ob.address.URL(), CertificateAuthorityData: ob.access.Authorities()}
	text, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("write %s: %w", infoName, err)
	}
	fresh := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: infoName, Namespace: infoNamespace}, Data: map[string]string{infoKey: string(text)}}
	gr := schema.GroupResource{Resource: "configmaps"}
	if err := ob.ensure(ctx, gr, fresh); err != nil || ob.storage.Shared() {
		return err
	}
	storage, err := ob.storageOf(gr)
	if err != nil {
		return err
	}
	_, _, err = storage.Update(ctx, infoNamespace, infoName, func(_ context.Context, old resource.Object) (resource.Object, error) {
		changed := old.DeepCopyObject().(*corev1.ConfigMap)
		changed.Data = maps.Clone(changed.Data)
		if changed.Data == nil {
			changed.Data = map[string]string{}
		}
		changed.Data[infoKey] = string(text)
		return changed, nil
	}, registry.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("update %s: %w", infoName, err)
	}
	return nil
}
