package bootstrap

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// checkInterval is how often the objects are checked.
const checkInterval = time.Minute

// repeat calls do again and again until the context ends.
func repeat(ctx context.Context, every time.Duration, do func(context.Context) error, failed func(error)) error {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			if err := do(ctx); err != nil && ctx.Err() == nil {
				failed(err)
			}
		}
	}
}

// keepConfigMap creates a config map in kube-system, or completes the existing one.
func keepConfigMap(ctx context.Context, r *registry.Registry, name string, complete func(*corev1.ConfigMap)) error {
	kind, ok := r.Catalogue.Kind(corev1.Resource("configmaps"))
	if !ok {
		return fmt.Errorf("config maps are not served")
	}
	s, err := r.Storage(kind)
	if err != nil {
		return err
	}
	write := registry.WriteOptions{Manager: "kube-apiserver"}
	if _, err := s.Get(ctx, metav1.NamespaceSystem, name, registry.Freshness{Any: true}); apierrors.IsNotFound(err) {
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name}, Data: map[string]string{}}
		complete(o)
		if _, err = s.Create(ctx, metav1.NamespaceSystem, o, write); !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	_, _, err = s.Update(ctx, metav1.NamespaceSystem, name, func(_ context.Context, old resource.Object) (resource.Object, error) {
		o := old.DeepCopyObject().(*corev1.ConfigMap)
		if o.Data == nil {
			o.Data = map[string]string{}
		}
		complete(o)
		return o, nil
	}, registry.UpdateOptions{WriteOptions: write})
	return err
}
