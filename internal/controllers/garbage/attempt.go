package garbage

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/cause"
)

// attempt handles one suspect.
func (c *collector) attempt(ctx context.Context, uid types.UID) error {
	v, ok := c.graph.look(uid)
	switch {
	case !ok:
		return nil
	case !v.observed:
		return c.verify(ctx, v.claimed)
	case v.orphaning():
		return c.releaseOwner(ctx, v)
	case v.waiting():
		return c.awaitDependents(ctx, v)
	case v.deleting, len(v.owners) == 0:
		return nil
	}
	// The cached version usually is the latest, which saves a read for each object. The server rejects the delete if it
	// is not.
	f, version, ok := c.find(v.identity)
	if ok && !f.deleting {
		err := c.judge(ctx, f, version, v.dependents)
		if !apierrors.IsConflict(err) {
			return err
		}
	}
	f, version, err := c.live(ctx, v.identity)
	if apierrors.IsNotFound(err) || f.deleting {
		return nil // its deletion has not reached the cache yet
	}
	if err != nil {
		return err
	}
	return c.judge(ctx, f, version, v.dependents)
}

// unseenAgain is when an owner that exists, and that no cache has shown, is read again: it may be deleted before any
// cache shows it.
const unseenAgain = 30 * time.Second

// verify checks whether an owner exists that no cache has shown.
func (c *collector) verify(ctx context.Context, id identity) error {
	if id.kind == nil {
		return nil
	}
	state, err := c.stateOf(ctx, id)
	switch {
	case err != nil:
		return err
	case state == absent:
		why, _ := cause.From(ctx)
		for _, uid := range c.graph.remove(id.uid) {
			c.passOn(uid, why)
		}
	default:
		c.queue.AddAfter(id.uid, unseenAgain)
	}
	return nil
}

// passOn has an object looked at for the reasons of the work in progress.
func (c *collector) passOn(uid types.UID, why cause.Cause) {
	for _, change := range why.Changes {
		c.queue.AddBecause(uid, change)
	}
	c.queue.Add(uid)
}

// judge deletes an object without any owner left. If only some of its owners are gone, it removes the references to
// them.
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

// deleteInTurn deletes an object whose owners wait for it. If it has dependents itself, it is deleted in the
// foreground. If one of those is waiting too, there may be a cycle, which is broken here.
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
		version = "" // we have just changed it; the UID is sufficient as a precondition
		break
	}
	return c.delete(ctx, f.identity, version, metav1.DeletePropagationForeground)
}

// state is what has become of an owner.
type state int

const (
	solidly state = iota // it exists and is not waiting
	waiting              // it is being deleted and waits for its dependents
	absent
)

// owner returns the state of the owner in a reference.
func (c *collector) owner(ctx context.Context, ref metav1.OwnerReference, dependent identity) (state, error) {
	id, ok := c.identify(ref, dependent)
	if !ok {
		c.mu.Lock()
		c.unresolved[dependent.uid] = struct{}{}
		c.mu.Unlock()
		return solidly, nil
	}
	if id.kind.Namespaced && dependent.namespace == "" {
		c.recordBadOwner(ref, dependent)
		return solidly, nil
	}
	state, err := c.stateOf(ctx, id)
	if err == nil && state == absent && c.graph.elsewhere(id) {
		c.recordBadOwner(ref, dependent)
	}
	return state, err
}

func (c *collector) recordBadOwner(ref metav1.OwnerReference, dependent identity) {
	c.recorder.Eventf(&corev1.ObjectReference{
		APIVersion: dependent.kind.Resource.GroupVersion().String(), Kind: dependent.kind.Kind,
		Namespace: dependent.namespace, Name: dependent.name, UID: dependent.uid,
	}, corev1.EventTypeWarning, "OwnerRefInvalidNamespace", "ownerRef [%s/%s, namespace: %s, name: %s, uid: %s] does not exist in namespace %q",
		ref.APIVersion, ref.Kind, dependent.namespace, ref.Name, ref.UID, dependent.namespace)
}

// stateOf trusts a cache that shows the owner, and asks the server if none does.
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

// awaitDependents completes the foreground deletion of an object once no dependent blocks it, and until then handles
// those that do.
func (c *collector) awaitDependents(ctx context.Context, v view) error {
	blocked := false
	why, _ := cause.From(ctx)
	for _, dependent := range v.dependents {
		for _, ref := range dependent.owners {
			if ref.UID == v.uid && blocks(ref) {
				blocked = true
				if !dependent.deleting {
					c.passOn(dependent.uid, why)
				}
			}
		}
	}
	if blocked {
		return nil
	}
	return c.dropFinalizer(ctx, v.identity, metav1.FinalizerDeleteDependents)
}

// releaseOwner removes the references to an object from its dependents, and then the finalizer from the object. The
// dependents are read from the API: one that no cache shows yet would be taken for garbage later.
func (c *collector) releaseOwner(ctx context.Context, v view) error {
	for _, kind := range c.followed() {
		if err := c.releaseDependents(ctx, kind, v.identity); err != nil {
			return err
		}
	}
	return c.dropFinalizer(ctx, v.identity, metav1.FinalizerOrphanDependents)
}
