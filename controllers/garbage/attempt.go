package garbage

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// attempt looks at one suspect and does what must be done about it.
func (c *collector) attempt(ctx context.Context, uid types.UID) error {
	v, ok := c.graph.look(uid)
	switch {
	case !ok:
		return nil
	case !v.observed:
		return c.verify(ctx, v.claimed)
	case v.orphaning():
		return c.letGo(ctx, v)
	case v.waiting():
		return c.awaitDependents(ctx, v)
	case v.deleting, len(v.owners) == 0:
		return nil
	}
	// The version that the cache shows usually is the latest, which saves a
	// request for each object. The server refuses the delete if it is not.
	f, version, ok := c.find(v.identity)
	if ok && !f.deleting {
		err := c.judge(ctx, f, version, v.dependents)
		if !apierrors.IsConflict(err) {
			return err
		}
	}
	f, version, err := c.live(ctx, v.identity)
	if apierrors.IsNotFound(err) || f.deleting {
		return nil // its deletion is on the way to the cache
	}
	if err != nil {
		return err
	}
	return c.judge(ctx, f, version, v.dependents)
}

// unseenAgain is when an owner is asked for again that exists and that no cache has shown: it may go before any does.
const unseenAgain = 30 * time.Second

// verify finds out whether an owner exists that no cache has shown.
func (c *collector) verify(ctx context.Context, id identity) error {
	if id.kind == nil {
		return nil
	}
	state, err := c.stateOf(ctx, id)
	switch {
	case err != nil:
		return err
	case state == absent:
		c.suspect(c.graph.remove(id.uid))
	default:
		c.queue.AddAfter(id.uid, unseenAgain)
	}
	return nil
}

// judge deletes an object of which no owner is left, and takes off references to
// owners that are gone while others are not.
func (c *collector) judge(ctx context.Context, f fact, version string, dependents []fact) error {
	var solid []metav1.OwnerReference
	var waits bool
	for _, ref := range f.owners {
		state, err := c.owner(ctx, ref, f.identity)
		if err != nil {
			return err
		}
		switch state {
		case solidly:
			solid = append(solid, ref)
		case waiting:
			waits = true
		}
	}
	switch {
	case len(solid) == len(f.owners):
		return nil
	case len(solid) > 0:
		return c.patch(ctx, f.identity, map[string]any{
			"uid": f.uid, "resourceVersion": version, "ownerReferences": solid,
		})
	case waits && len(dependents) > 0:
		return c.deleteInTurn(ctx, f, version, dependents)
	case f.orphan:
		return c.delete(ctx, f.identity, version, metav1.DeletePropagationOrphan)
	case f.foreground:
		return c.delete(ctx, f.identity, version, metav1.DeletePropagationForeground)
	}
	return c.delete(ctx, f.identity, version, metav1.DeletePropagationBackground)
}

// deleteInTurn deletes what its owners wait for, and what has dependents itself,
// in the foreground. Where one of those waits too there may be a circle of waiting,
// which is broken up here.
func (c *collector) deleteInTurn(ctx context.Context, f fact, version string, dependents []fact) error {
	for _, dependent := range dependents {
		if !dependent.waiting() {
			continue
		}
		var refs []metav1.OwnerReference
		for _, ref := range f.owners {
			ref.BlockOwnerDeletion = new(bool)
			refs = append(refs, ref)
		}
		err := c.patch(ctx, f.identity, map[string]any{"uid": f.uid, "resourceVersion": version, "ownerReferences": refs})
		if err != nil {
			return err
		}
		version = "" // changed by us just now; the uid is guard enough
		break
	}
	return c.delete(ctx, f.identity, version, metav1.DeletePropagationForeground)
}

// A state is what became of an owner.
type state int

const (
	solidly state = iota // it exists, as far as its dependents are concerned
	waiting              // it is being deleted and waits for its dependents
	absent
)

// owner tells the state of the owner that a reference names.
func (c *collector) owner(ctx context.Context, ref metav1.OwnerReference, dependent identity) (state, error) {
	id, ok := c.identify(ref, dependent)
	if !ok {
		c.mu.Lock()
		c.unresolved[dependent.uid] = struct{}{}
		c.mu.Unlock()
		return solidly, nil
	}
	if id.kind.Namespaced && dependent.namespace == "" {
		c.complain(ref, dependent)
		return solidly, nil
	}
	state, err := c.stateOf(ctx, id)
	if err == nil && state == absent && c.graph.elsewhere(id) {
		c.complain(ref, dependent)
	}
	return state, err
}

func (c *collector) complain(ref metav1.OwnerReference, dependent identity) {
	c.recorder.Eventf(&corev1.ObjectReference{
		APIVersion: dependent.kind.Resource.GroupVersion().String(), Kind: dependent.kind.Kind,
		Namespace: dependent.namespace, Name: dependent.name, UID: dependent.uid,
	}, corev1.EventTypeWarning, "OwnerRefInvalidNamespace", "ownerRef [%s/%s, namespace: %s, name: %s, uid: %s] does not exist in namespace %q",
		ref.APIVersion, ref.Kind, dependent.namespace, ref.Name, ref.UID, dependent.namespace)
}

// stateOf believes a cache that shows the owner, and asks the server if none does.
func (c *collector) stateOf(ctx context.Context, id identity) (state, error) {
	if f, ok := c.graph.present(id); ok {
		return f.asOwner(), nil
	}
	if c.absent.has(id) {
		return absent, nil
	}
	f, _, err := c.live(ctx, id)
	switch {
	case apierrors.IsNotFound(err):
		c.absent.add(id)
		return absent, nil
	case err != nil:
		return solidly, fmt.Errorf("look for owner %s %s/%s: %w", id.kind.Kind, id.namespace, id.name, err)
	}
	return f.asOwner(), nil
}

func (f *fact) asOwner() state {
	if f.waiting() {
		return waiting
	}
	return solidly
}

// awaitDependents lets an object go that is deleted in the foreground, once no
// dependent blocks it any more, and until then sees to those that do.
func (c *collector) awaitDependents(ctx context.Context, v view) error {
	blocked := false
	for _, dependent := range v.dependents {
		for _, ref := range dependent.owners {
			if ref.UID == v.uid && blocks(ref) {
				blocked = true
				if !dependent.deleting {
					c.queue.Add(dependent.uid)
				}
			}
		}
	}
	if blocked {
		return nil
	}
	return c.dropFinalizer(ctx, v.identity, metav1.FinalizerDeleteDependents)
}

// letGo takes the references to an object off its dependents, and then the finalizer off the object. The API is asked for
// the dependents: one that no cache shows yet would be taken for garbage later.
func (c *collector) letGo(ctx context.Context, v view) error {
	for _, kind := range c.followed() {
		if err := c.letGoOf(ctx, kind, v.identity); err != nil {
			return err
		}
	}
	return c.dropFinalizer(ctx, v.identity, metav1.FinalizerOrphanDependents)
}
