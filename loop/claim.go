package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Claims decides which objects a controller owns: those that match its selector and are owned by it or have no
// controller.
type Claims[T metav1.Object] struct {
	Owner    metav1.Object
	Kind     schema.GroupVersionKind // the owner's kind
	Selector labels.Selector
	// Adoptable is a further condition on objects that are adopted or kept; nil means none.
	Adoptable func(T) bool
	// Live reads the owner from the server. It is called at most once, before the first adoption, because a cache may
	// still show a deleted owner.
	Live func(ctx context.Context) (metav1.Object, error)
	// Patch sends a strategic merge patch. The patch has the object's UID, so it cannot hit another object of the same
	// name.
	Patch func(ctx context.Context, object T, patch []byte) error
}

// Claim adopts orphans that match, releases owned objects that no longer match, and returns the objects that are owned
// now. They are returned as they were passed in; an adopted object does not have its new owner yet. Objects that could
// not be claimed are left out, and the errors are returned with the rest.
func (c *Claims[T]) Claim(ctx context.Context, candidates iter.Seq[T]) (owned []T, err error) {
	var failures []error
	mayAdopt := sync.OnceValue(func() error { return c.ownerLives(ctx) })
	for object := range candidates {
		ours, err := c.claim(ctx, object, mayAdopt)
		if err != nil {
			failures = append(failures, err)
		}
		if ours {
			owned = append(owned, object)
		}
	}
	return owned, errors.Join(failures...)
}

func (c *Claims[T]) claim(ctx context.Context, object T, mayAdopt func() error) (bool, error) {
	matches := c.Selector.Matches(labels.Set(object.GetLabels())) && (c.Adoptable == nil || c.Adoptable(object))
	leaving := c.Owner.GetDeletionTimestamp() != nil
	ref := metav1.GetControllerOfNoCopy(object)
	switch {
	case ref != nil && ref.UID != c.Owner.GetUID():
		return false, nil
	case ref != nil && matches:
		return true, nil
	case ref != nil && leaving:
		return false, nil
	case ref != nil:
		return false, c.release(ctx, object)
	case !matches, leaving, object.GetDeletionTimestamp() != nil,
		c.Owner.GetNamespace() != "" && c.Owner.GetNamespace() != object.GetNamespace():
		return false, nil
	}
	if err := mayAdopt(); err != nil {
		return false, err
	}
	return c.adopt(ctx, object)
}

func (c *Claims[T]) ownerLives(ctx context.Context) error {
	live, err := c.Live(ctx)
	if err != nil {
		return fmt.Errorf("read %s before adopting: %w", c.describe(), err)
	}
	if live.GetUID() != c.Owner.GetUID() {
		return fmt.Errorf("original %s is gone: got uid %s, wanted %s", c.describe(), live.GetUID(), c.Owner.GetUID())
	}
	if at := live.GetDeletionTimestamp(); at != nil {
		return fmt.Errorf("%s has just been deleted at %s", c.describe(), at)
	}
	return nil
}

func (c *Claims[T]) adopt(ctx context.Context, object T) (bool, error) {
	err := c.patch(ctx, object, metav1.NewControllerRef(c.Owner, c.Kind))
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("adopt %s for %s: %w", object.GetName(), c.describe(), err)
	}
	return true, nil
}

func (c *Claims[T]) release(ctx context.Context, object T) error {
	err := c.patch(ctx, object, map[string]string{"$patch": "delete", "uid": string(c.Owner.GetUID())})
	// Gone, replaced, or released by another client: in each case it is not ours.
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
		return nil
	}
	return fmt.Errorf("release %s from %s: %w", object.GetName(), c.describe(), err)
}

func (c *Claims[T]) patch(ctx context.Context, object T, ownerReference any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":             object.GetUID(),
		"ownerReferences": []any{ownerReference},
	}})
	if err != nil {
		return err
	}
	return c.Patch(ctx, object, patch)
}

func (c *Claims[T]) describe() string {
	return c.Kind.Kind + " " + types.NamespacedName{Namespace: c.Owner.GetNamespace(), Name: c.Owner.GetName()}.String()
}

// ControlledBy reports whether owner is the controller of object.
func ControlledBy(object, owner metav1.Object) bool { return metav1.IsControlledBy(object, owner) }
