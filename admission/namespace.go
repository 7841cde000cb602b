package admission

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/registry"
	"github.com/millrace/millrace/resource"
)

// immortal namespaces cannot be deleted.
var immortal = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}

var namespaces = schema.GroupResource{Resource: "namespaces"}

// NamespaceLifecycle lets nothing be created in a namespace that does not exist or is going away.
func NamespaceLifecycle(r func() *registry.Registry) registry.Admission {
	return registry.Admission{Name: "NamespaceLifecycle", Mutate: func(ctx context.Context, c *registry.Change) error {
		if c.Operation == registry.Delete && c.Kind.GroupResource() == namespaces && slices.Contains(immortal, c.Name) {
			return apierrors.NewForbidden(namespaces, c.Name, fmt.Errorf("this namespace may not be deleted"))
		}
		if c.Operation != registry.Create || !c.Kind.Namespaced || c.Namespace == "" {
			return nil
		}
		return mayCreate(ctx, r(), c)
	}}
}

func mayCreate(ctx context.Context, r *registry.Registry, c *registry.Change) error {
	o, err := find(ctx, r, namespaces, "", c.Namespace)
	if err != nil {
		return err
	}
	ns := o.(*corev1.Namespace)
	if ns.Status.Phase != corev1.NamespaceTerminating {
		return nil
	}
	e := apierrors.NewForbidden(c.Kind.GroupResource(), c.Name,
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", c.Namespace))
	e.ErrStatus.Details.Causes = append(e.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: corev1.NamespaceTerminatingCause, Message: fmt.Sprintf("namespace %s is being terminated", c.Namespace), Field: "metadata.namespace"})
	return e
}

// find reads one object: from the cache if it is there, and from the newest state before it is said to be missing.
func find(ctx context.Context, r *registry.Registry, gr schema.GroupResource, namespace, name string) (resource.Object, error) {
	kind, ok := r.Catalogue.Kind(gr)
	if !ok {
		return nil, apierrors.NewNotFound(gr, name)
	}
	storage, err := r.Storage(kind)
	if err != nil {
		return nil, err
	}
	cached, err := storage.Get(ctx, namespace, name, registry.Freshness{Any: true})
	if apierrors.IsNotFound(err) {
		cached, err = storage.Get(ctx, namespace, name, registry.Freshness{})
	}
	if err != nil {
		return nil, err
	}
	return kind.Codec.Decode(cached.Value(), cached.Revision.String())
}
