package podautoscaler

import (
	"context"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	"github.com/millrace/millrace/internal/controllers/internal/kinds"
)

// target is the scale of a workload.
type target struct {
	client dynamic.ResourceInterface
	name   string
	raw    *unstructured.Unstructured
	scale  *autoscalingv1.Scale
}

// target reads the scale of the workload.
func (e *evaluation) target(ctx context.Context) (*target, error) {
	ref := &e.hpa.Spec.ScaleTargetRef
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil, err
	}
	gvr, err := e.resourceOf(schema.GroupKind{Group: gv.Group, Kind: ref.Kind}, gv.Version)
	if err != nil {
		return nil, err
	}
	t := &target{client: e.clients.Dynamic.Resource(gvr).Namespace(e.key.Namespace), name: ref.Name}
	return t, t.read(ctx)
}

// resourceOf finds the resource of a kind. Results are cached, because kinds rarely change their resource.
func (r *controller) resourceOf(kind schema.GroupKind, version string) (schema.GroupVersionResource, error) {
	r.mu.Lock()
	gvr, ok := r.targets[kind]
	r.mu.Unlock()
	if ok {
		return gvr, nil
	}
	all, err := kinds.Discover(r.clients.Discovery)
	if err != nil {
		return gvr, err
	}
	for _, k := range all.Kinds {
		if k.Kind == kind.Kind && k.Resource.Group == kind.Group {
			r.mu.Lock()
			r.targets[kind] = k.Resource
			r.mu.Unlock()
			return k.Resource, nil
		}
	}
	return gvr, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: nil}
}

func (t *target) read(ctx context.Context) error {
	raw, err := t.client.Get(ctx, t.name, metav1.GetOptions{}, "scale")
	if err != nil {
		return err
	}
	t.raw, t.scale = raw, &autoscalingv1.Scale{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, t.scale); err != nil {
		return fmt.Errorf("decode the scale of %s: %w", t.name, err)
	}
	return nil
}

// set writes the number of replicas, and retries conflicts.
func (t *target) set(ctx context.Context, replicas int32) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := unstructured.SetNestedField(t.raw.Object, int64(replicas), "spec", "replicas"); err != nil {
			return err
		}
		_, err := t.client.Update(ctx, t.raw, metav1.UpdateOptions{}, "scale")
		if apierrors.IsConflict(err) {
			if failed := t.read(ctx); failed != nil {
				return failed
			}
		}
		return err
	})
}
