package loop

import (
	"context"
	"encoding/json"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/informer"
)

// Finalizer keeps deleted objects until a loop has cleaned up after them.
type Finalizer[T informer.Object] struct {
	// Name is the entry in metadata.finalizers: a domain and a path.
	Name   string
	Writer *Writer[T]
	// Cleanup removes what was made for the object. It may be called again for the same object. It must return an error
	// while anything is left.
	Cleanup func(ctx context.Context, object T) error
}

// Handle must be called first in Sync. It adds the finalizer to an object. If the object is being deleted, it cleans up
// and removes the finalizer. It returns whether Sync must continue.
func (f *Finalizer[T]) Handle(ctx context.Context, object T) (goOn bool, err error) {
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
		err = nil // it was deleted meanwhile
	}
	return false, err
}

// set replaces the finalizers of exactly this version of the object.
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
