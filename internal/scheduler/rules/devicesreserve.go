package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// Reserve assumes the allocation on the node, and that the pod uses its claims.
func (a *allocation) Reserve(node *cluster.Node) error {
	a.reserved, a.node = nil, node.Name
	special, refused := a.special.on(node)
	if refused != nil {
		return errors.New(refused.Reasons[0])
	}
	claims := a.unallocated(special)
	results, err := a.allocate(node, claims)
	if err != nil {
		return err
	}
	if len(results) != len(claims) {
		return errors.New("claim allocation not found for node")
	}
	for i, c := range claims {
		changed := c.DeepCopy()
		changed.Status.Allocation = results[i].DeepCopy()
		change := claimChange{was: c, wanted: changed, allocates: true}
		if i == len(a.open) {
			change.special = special
		}
		a.take(change)
	}
	for _, had := range a.had {
		if !a.uses(had.claim) {
			a.take(claimChange{was: had.claim, wanted: had.claim.DeepCopy()})
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

func (a *allocation) take(c claimChange) {
	c.wanted.Status.ReservedFor = append(c.wanted.Status.ReservedFor, a.consumer())
	if c.special != nil {
		a.state.Devices.Promise(c.wanted)
	} else {
		a.state.Devices.Assume(c.wanted)
	}
	a.reserved = append(a.reserved, c)
}

// Unreserve undoes the assumptions.
func (a *allocation) Unreserve() {
	for _, c := range a.reserved {
		if c.special != nil {
			a.state.Devices.BreakPromise(c.special.claim.UID)
		}
		a.state.Devices.Restore(claimKey(c.was))
	}
}

func claimKey(c *resourcev1.ResourceClaim) cluster.Key {
	return cluster.Key{Namespace: c.Namespace, Name: c.Name}
}

// Prepares reports whether claims must be written.
func (a *allocation) Prepares() bool { return len(a.reserved) > 0 }

// Prepare writes the claims: a finalizer, so that no claim is deleted while its devices are in use, and the decision.
func (a *allocation) Prepare(ctx context.Context, access plugin.Access) error {
	for i := range a.reserved {
		c := &a.reserved[i]
		if c.special != nil {
			if err := a.prepareSpecial(ctx, access, c); err != nil {
				return err
			}
			continue
		}
		written, err := access.ChangeResourceClaim(ctx, c.was, func(now *resourcev1.ResourceClaim) error { return a.change(now, c) })
		if err != nil {
			return err
		}
		access.WithState(func(s *cluster.State) { s.Devices.Written(written) })
	}
	return a.untilBound(ctx, access)
}

// change applies the wanted change to a claim, unless another change of the claim makes that wrong.
func (a *allocation) change(now *resourcev1.ResourceClaim, c *claimChange) error {
	wanted := c.wanted
	switch {
	case now.UID != wanted.UID:
		return fmt.Errorf("claim %s/%s got deleted in the meantime", wanted.Namespace, wanted.Name)
	case c.allocates && now.Status.Allocation != nil && !a.uses(now):
		return fmt.Errorf("claim %s/%s got allocated elsewhere in the meantime", wanted.Namespace, wanted.Name)
	case !c.allocates && now.Status.Allocation == nil:
		return fmt.Errorf("claim %s/%s got deallocated elsewhere in the meantime", wanted.Namespace, wanted.Name)
	}
	if c.allocates && now.Status.Allocation == nil {
		now.Status.Allocation = wanted.Status.Allocation
	}
	// Without the finalizer the allocation is not written yet: it may be that of another pod, which shares the claim
	// and is about to write it too.
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

// Release releases the devices of one claim that cannot be used where the pod could go, if no other pod uses them, or
// deletes the special claim of an earlier attempt.
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
	if a.special != nil && a.special.prior != nil {
		return "deletion of ResourceClaim completed", func(ctx context.Context, access plugin.Access) error {
			return access.DeleteResourceClaim(ctx, a.special.prior)
		}
	}
	return "", nil
}
