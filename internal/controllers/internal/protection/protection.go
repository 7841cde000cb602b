// Package protection keeps objects that are in use from being deleted, with a finalizer.
//
// Guarantees: an object that is not being deleted has the finalizer. One that is being deleted loses it when
// [Loop.Used] has said that it is not in use, and only in the version that was looked at: what has changed meanwhile is
// looked at again.
package protection

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

// Loop protects the objects of one kind. All fields are required.
type Loop[T informer.Object] struct {
	Finalizer string
	Objects   *informer.Shared[T]
	Writer    *loop.Writer[T]
	// Used reports whether an object that is being deleted is in use. It should ask the API: a cache may not show the
	// last user yet.
	Used func(ctx context.Context, object T) (bool, error)
}

// Sync adds the finalizer to an object, or removes it. Kubernetes' roles for these loops let them update their objects,
// and not patch them.
func (p *Loop[T]) Sync(ctx context.Context, key loop.Key) (loop.Result, error) {
	object, ok := p.Objects.Lookup(key)
	if !ok {
		return loop.Result{}, nil
	}
	finalizers := slices.Clone(object.GetFinalizers())
	at, going := slices.Index(finalizers, p.Finalizer), object.GetDeletionTimestamp() != nil
	switch {
	case at < 0 && !going:
		finalizers = append(finalizers, p.Finalizer)
	case at >= 0 && going:
		if used, err := p.Used(ctx, object); used || err != nil {
			return loop.Result{}, err
		}
		finalizers = slices.Delete(finalizers, at, at+1)
	default:
		return loop.Result{}, nil
	}
	changed := object.DeepCopyObject().(T)
	changed.SetFinalizers(finalizers)
	if _, err := p.Writer.Update(ctx, changed); err != nil && !apierrors.IsNotFound(err) {
		return loop.Result{}, fmt.Errorf("update the finalizers of %s: %w", key, err)
	}
	return loop.Result{}, nil
}
