package millrace

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/server/allocation"
	"github.com/millrace/millrace/server/endpoints"
	"github.com/millrace/millrace/server/registry"
	"github.com/millrace/millrace/server/resource"
	"github.com/millrace/millrace/server/resource/scheduling"
)

// bootstrapEvery returns how often the objects are checked that every cluster has: rarely in a cluster without a port, where only this process can change
// one. Zero is the default.
func (c *Cluster) bootstrapEvery() time.Duration {
	if c.options.Listen == noPort {
		return time.Hour
	}
	return 0
}

// bootstrap makes the objects that every cluster has: namespaces, priority classes, and the Service of the API servers, which
// listen on port.
func bootstrap(ctx context.Context, r *registry.Registry, serviceRange string, port int) error {
	for _, name := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
		if err := ensure(ctx, r, schema.GroupResource{Resource: "namespaces"}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return err
		}
	}
	for _, class := range scheduling.SystemClasses() {
		if err := ensure(ctx, r, schema.GroupResource{Group: "scheduling.k8s.io", Resource: "priorityclasses"}, class); err != nil {
			return err
		}
	}
	address, err := firstAddress(serviceRange)
	if err != nil {
		return err
	}
	return ensure(ctx, r, schema.GroupResource{Resource: "services"}, endpoints.Service(address, port))
}

// ensure creates an object unless it exists.
func ensure(ctx context.Context, r *registry.Registry, gr schema.GroupResource, o resource.Object) error {
	k, ok := r.Catalogue.Kind(gr)
	if !ok {
		return fmt.Errorf("there is no kind %v", gr)
	}
	storage, err := r.Storage(k)
	if err != nil {
		return err
	}
	if _, err := storage.Get(ctx, o.GetNamespace(), o.GetName(), registry.Freshness{Any: true}); err == nil {
		return nil
	}
	k.Default(o)
	_, err = storage.Create(ctx, o.GetNamespace(), o, registry.WriteOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create %v %s: %w", gr, o.GetName(), err)
	}
	return nil
}

// firstAddress returns the first usable address of the (first) service range: the one of the Service "kubernetes".
func firstAddress(serviceRange string) (netip.Addr, error) {
	ranges, err := allocation.ParseRanges(serviceRange)
	if err != nil {
		return netip.Addr{}, err
	}
	return ranges[0].Addr().Next(), nil
}
