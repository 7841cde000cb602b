package loop

import (
	"context"
	"encoding/json"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/informer"
)

// Finalizer keeps objects from going before a loop has cleaned up after them.
type Finalizer[T informer.Object] struct {
	// Name is what stands in metadata.finalizers: a domain and a path.
	Name   string
	Writer *Writer[T]
	// Cleanup removes what the object has led to. It may be called again for
	// the same object, and fails as long as there is something left.
	Cleanup func(ctx context.Context, object T) error
}

// Hold is called by a Sync first, with the object that it is about. It puts the finalizer on an object that lives. Of one
// that is being deleted it cleans up and takes the finalizer off. It reports whether Sync has to go on.
func (f *Finalizer[T]) Hold(ctx context.Context, object T) (goOn bool, err error) {
	held := slices.Contains(object.GetFinalizers(), f.Name)
	switch {
	case object.GetDeletionTimestamp() == nil && held:
		return true, nil
	case object.GetDeletionTimestamp() == nil:
		return true, f.set(ctx, object, append(slices.Clone(object.GetFinalizers()), f.Name))
	case !held:
		return false, nil
	}
	if err := f.Cleanup(ctx, object); err != nil {
		return false, err
	}
	err = f.set(ctx, object, slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(name string) bool { return name == f.Name }))
	if apierrors.IsNotFound(err) {
		err = nil // it went meanwhile
	}
	return false, err
}

// set replaces the finalizers of this version of the object, and of no other.
func (f *Finalizer[T]) set(ctx context.Context, object T, finalizers []string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": object.GetUID(), "resourceVersion": object.GetResourceVersion(), "finalizers": finalizers,
	}})
	if err != nil {
		return err
	}
	_, err = f.Writer.Patch(ctx, informer.KeyOf(object), types.MergePatchType, patch)
	return err
}
