package resourceclaim

import (
	"context"
	"fmt"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
)

// syncClaim takes from a claim the users that need it no more, and with the last of them its devices, its finalizer,
// and the claim itself if it was made for a pod that has ended.
func (r *controller) syncClaim(ctx context.Context, key loop.Key) (loop.Result, error) {
	claim, ok := r.claims.Lookup(key)
	if !ok {
		return loop.Result{}, nil
	}
	users, err := r.users(ctx, claim)
	if err != nil {
		return loop.Result{}, err
	}
	if claim, err = r.free(ctx, claim, users); err != nil {
		if apierrors.IsNotFound(err) {
			return loop.Result{}, nil
		}
		return loop.Result{}, fmt.Errorf("free resource claim %s: %w", key, err)
	}
	if len(users) > 0 || claim.DeletionTimestamp != nil || !r.ownerEnded(claim) {
		return loop.Result{}, nil
	}
	if err := r.writer.Delete(ctx, claim); err != nil && !apierrors.IsNotFound(err) {
		return loop.Result{}, fmt.Errorf("delete resource claim %s, whose pod has ended: %w", key, err)
	}
	return loop.Result{}, nil
}

// users are those users of a claim that may need it still. What is not a pod is taken to do so.
func (r *controller) users(ctx context.Context, claim *resourcev1.ResourceClaim) ([]resourcev1.ResourceClaimConsumerReference, error) {
	var users []resourcev1.ResourceClaimConsumerReference
	for _, user := range claim.Status.ReservedFor {
		if user.APIGroup == "" && user.Resource == "pods" {
			gone, err := r.gone(ctx, claim.Namespace, user)
			if err != nil {
				return nil, err
			}
			if gone {
				continue
			}
		}
		users = append(users, user)
	}
	return users, nil
}

// gone says that a pod does not use claims any more. A pod that the cache does not show may be so new that it will, and
// one that is being deleted without a node may have got one: the server is asked.
func (r *controller) gone(ctx context.Context, namespace string, user resourcev1.ResourceClaimConsumerReference) (bool, error) {
	if pod, ok := r.pods.Get(namespace, user.Name); ok && pod.UID == user.UID && (!done(pod) || pod.Finished()) {
		return done(pod), nil // a pod that has ended stays so
	}
	pod, err := r.kube.CoreV1().Pods(namespace).Get(ctx, user.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read pod %s/%s, which a resource claim is reserved for: %w", namespace, user.Name, err)
	}
	return pod.UID != user.UID || done(podview.Of(pod)), nil
}

// free writes which users a claim has left. The devices go with the last of them, so that another user may get others
// on another node; a claim that never had one keeps them until it is deleted. The finalizer goes with the devices.
func (r *controller) free(ctx context.Context, claim *resourcev1.ResourceClaim, users []resourcev1.ResourceClaimConsumerReference) (*resourcev1.ResourceClaim, error) {
	held := slices.Contains(claim.Finalizers, resourcev1.Finalizer)
	lost := len(users) < len(claim.Status.ReservedFor)
	deallocate := held && claim.Status.Allocation != nil && len(users) == 0 && (lost || claim.DeletionTimestamp != nil)
	if lost || deallocate {
		changed := claim.DeepCopy()
		changed.Status.ReservedFor = users
		if deallocate {
			changed.Status.Allocation = nil
		}
		var err error
		if claim, err = r.writer.UpdateStatus(ctx, changed); err != nil {
			return nil, err
		}
		held = slices.Contains(claim.Finalizers, resourcev1.Finalizer)
	}
	if !held || claim.Status.Allocation != nil || len(claim.Status.ReservedFor) > 0 || !lost && claim.DeletionTimestamp == nil {
		return claim, nil
	}
	changed := claim.DeepCopy()
	changed.Finalizers = slices.DeleteFunc(changed.Finalizers, func(f string) bool { return f == resourcev1.Finalizer })
	return r.writer.Update(ctx, changed)
}

// ownerEnded says that a claim was made for a pod that will not need it. A pod that the cache does not show may be new;
// if it has gone, the garbage collector deletes the claim.
func (r *controller) ownerEnded(claim *resourcev1.ResourceClaim) bool {
	owner := podOf(claim)
	if owner == nil {
		return false
	}
	pod, ok := r.pods.Lookup(informer.Key{Namespace: claim.Namespace, Name: owner.Name})
	return ok && (pod.UID != owner.UID && pod.CreationTimestamp.After(claim.CreationTimestamp.Time) || pod.UID == owner.UID && done(pod))
}
