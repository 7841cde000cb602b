package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/scheduler/internal/cluster"
	"github.com/millrace/millrace/scheduler/plugin"
)

// Reserve assumes the allocation on the node, and that the pod uses its claims.
func (a *allocation) Reserve(node *cluster.Node) error {
	a.reserved, a.node = nil, node.Name
	results, err := a.allocate(node)
	if err != nil {
		return err
	}
	if len(results) != len(a.open) {
		return errors.New("claim allocation not found for node")
	}
	for i, c := range a.open {
		changed := c.DeepCopy()
		changed.Status.Allocation = results[i].DeepCopy()
		a.take(c, changed)
	}
	for _, had := range a.had {
		if !a.uses(had.claim) {
			a.take(had.claim, had.claim.DeepCopy())
		}
	}
	return nil
}

func (a *allocation) uses(c *resourcev1.ResourceClaim) bool {
	return slices.ContainsFunc(c.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool { return r.UID == a.pod.UID })
}

func (a *allocation) consumer() resourcev1.ResourceClaimConsumerReference {
	return resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: a.pod.Key.Name, UID: a.pod.UID}
}

func (a *allocation) take(was, wanted *resourcev1.ResourceClaim) {
	wanted.Status.ReservedFor = append(wanted.Status.ReservedFor, a.consumer())
	a.state.Devices.Assume(wanted)
	a.reserved = append(a.reserved, claimChange{was, wanted})
}

// Unreserve undoes the assumptions.
func (a *allocation) Unreserve() {
	for _, c := range a.reserved {
		a.state.Devices.Restore(cluster.Key{Namespace: c.was.Namespace, Name: c.was.Name})
	}
}

// Prepares reports whether claims must be written.
func (a *allocation) Prepares() bool { return len(a.reserved) > 0 }

// Prepare writes the claims: a finalizer, so that no claim is deleted while its devices are in use, and the decision.
func (a *allocation) Prepare(ctx context.Context, access plugin.Access) error {
	for _, c := range a.reserved {
		written, err := access.ChangeResourceClaim(ctx, c.was, func(now *resourcev1.ResourceClaim) error { return a.change(now, c.wanted) })
		if err != nil {
			return err
		}
		access.WithState(func(s *cluster.State) { s.Devices.Written(written) })
	}
	return a.untilBound(ctx, access)
}

// change applies the wanted change to a claim, unless another change of the claim makes that wrong.
func (a *allocation) change(now, wanted *resourcev1.ResourceClaim) error {
	switch {
	case now.UID != wanted.UID:
		return fmt.Errorf("claim %s/%s got deleted in the meantime", wanted.Namespace, wanted.Name)
	case a.isNew(wanted) && now.Status.Allocation != nil && !a.uses(now):
		return fmt.Errorf("claim %s/%s got allocated elsewhere in the meantime", wanted.Namespace, wanted.Name)
	case !a.isNew(wanted) && now.Status.Allocation == nil:
		return fmt.Errorf("claim %s/%s got deallocated elsewhere in the meantime", wanted.Namespace, wanted.Name)
	}
	if a.isNew(wanted) && now.Status.Allocation == nil {
		now.Status.Allocation = wanted.Status.Allocation
	}
	// Without the finalizer the allocation is not written yet: it may be that of another pod, which shares the claim and is about to write it too.
	if !slices.Contains(now.Finalizers, resourcev1.Finalizer) {
		now.Finalizers = append(now.Finalizers, resourcev1.Finalizer)
		if now.Status.Allocation.AllocationTimestamp == nil {
			stamp := metav1.Now()
			now.Status.Allocation.AllocationTimestamp = &stamp
		}
	}
	if !a.uses(now) {
		now.Status.ReservedFor = append(now.Status.ReservedFor, a.consumer())
	}
	return nil
}

// Release releases the devices of one claim that cannot be used where the pod could go, if no other pod uses them.
func (a *allocation) Release() (string, func(context.Context, plugin.Access) error) {
	for _, had := range a.had {
		users := had.claim.Status.ReservedFor
		if !had.unavailable || len(users) > 1 || len(users) == 1 && !a.uses(had.claim) {
			continue
		}
		return "deallocation of ResourceClaim completed", func(ctx context.Context, access plugin.Access) error {
			_, err := access.ChangeResourceClaim(ctx, had.claim, func(now *resourcev1.ResourceClaim) error {
				if users := now.Status.ReservedFor; len(users) > 1 || len(users) == 1 && !a.uses(now) {
					return errors.New("somebody else uses it by now")
				}
				now.Status = resourcev1.ResourceClaimStatus{}
				return nil
			})
			return err
		}
	}
	return "", nil
}

// isNew reports whether the devices of a claim are allocated for this pod.
func (a *allocation) isNew(wanted *resourcev1.ResourceClaim) bool {
	return slices.ContainsFunc(a.open, func(c *resourcev1.ResourceClaim) bool { return c.UID == wanted.UID })
}
