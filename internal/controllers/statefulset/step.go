package statefulset

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
)

// step creates, deletes and replaces the pods that may be changed now.
func (c *controller) step(ctx context.Context, s *state) error {
	if s.set.DeletionTimestamp != nil {
		return nil
	}
	for _, phase := range []func(context.Context) (wait bool, err error){s.fill, s.markCondemned, s.shrink, s.roll} {
		if wait, err := phase(ctx); wait || err != nil {
			return err
		}
	}
	return nil
}

// fill handles the pods that should exist, from the lowest ordinal up.
func (s *state) fill(ctx context.Context) (wait bool, err error) {
	if s.ordered() {
		for _, at := range s.slots {
			if wait, err := s.see(ctx, at); wait || err != nil {
				return true, err
			}
		}
		return false, nil
	}
	_, err = loop.SlowStart(ctx, len(s.slots), func(ctx context.Context, i int) error {
		_, err := s.see(ctx, s.slots[i])
		return err
	})
	for _, at := range s.slots {
		s.available(at.pod) // requests a sync for when it becomes available
	}
	if s.missing > burst {
		s.again(0) // the next burst, as soon as the cache shows this one
	}
	return false, err
}

// see handles one ordinal. wait is true if, with ordered pods, the later ones must wait.
func (s *state) see(ctx context.Context, at slot) (wait bool, err error) {
	p := at.pod
	switch {
	case p == nil:
		return true, s.create(ctx, at.number)
	case p.Finished():
		return true, s.recreate(ctx, p)
	case p.Phase == corev1.PodPending:
		if err := s.makeClaims(ctx, at.number); err != nil {
			return true, err
		}
		if err := s.keepClaims(ctx, at); err != nil { // the pod may wait for a volume as long as it lives
			return true, err
		}
	}
	if s.ordered() && (!healthy(p) || !s.available(p)) {
		return true, nil
	}
	if err := s.identify(ctx, p, at.number); err != nil {
		return true, err
	}
	return false, s.keepClaims(ctx, at)
}

// recreate deletes a finished pod. Its successor is made when it is gone.
func (s *state) recreate(ctx context.Context, p *podview.Pod) error {
	if p.DeletionTimestamp != nil {
		return nil
	}
	if p.Phase == corev1.PodFailed {
		s.recorder.Eventf(s.set, corev1.EventTypeWarning, "RecreatingFailedPod", "StatefulSet %s/%s is recreating failed Pod %s", s.set.Namespace, s.set.Name, p.Name)
	} else {
		s.recorder.Eventf(s.set, corev1.EventTypeNormal, "RecreatingTerminatedPod", "StatefulSet %s/%s is recreating terminated Pod %s", s.set.Namespace, s.set.Name, p.Name)
	}
	return s.remove(ctx, p)
}

// markCondemned sets the owners of the claims of surplus pods, if the retention policy says so.
func (s *state) markCondemned(ctx context.Context) (wait bool, err error) {
	for _, at := range s.condemned {
		if err := s.keepClaims(ctx, at); err != nil {
			return true, err
		}
	}
	return false, nil
}

// shrink deletes surplus pods, from the highest ordinal down.
func (s *state) shrink(ctx context.Context) (wait bool, err error) {
	worst := s.firstUnhealthy()
	for _, at := range s.condemned {
		p := at.pod
		switch {
		case p.DeletionTimestamp != nil:
			if s.ordered() {
				return true, nil
			}
			continue
		case s.ordered() && p != worst && (!running(p) || !s.available(p)):
			return true, nil
		}
		if err := s.remove(ctx, p); err != nil || s.ordered() {
			return true, err
		}
	}
	return false, nil
}

// firstUnhealthy returns the unhealthy pod with the lowest ordinal, unless a pod that should exist is missing.
func (s *state) firstUnhealthy() *podview.Pod {
	for _, at := range s.slots {
		if !healthy(at.pod) {
			return at.pod
		}
	}
	for i := len(s.condemned) - 1; i >= 0; i-- {
		if !healthy(s.condemned[i].pod) {
			return s.condemned[i].pod
		}
	}
	return nil
}

// roll deletes pods of other revisions than the new one, from the highest ordinal down to the partition, and as many as
// may be unavailable. Where pods do not wait for each other, those that are unavailable go at once: they may never
// become available, and nobody misses them.
func (s *state) roll(ctx context.Context) (wait bool, err error) {
	if !s.rolls() {
		return false, nil
	}
	room := s.maxUnavailable() - s.missing
	var useful, useless []*podview.Pod
	for _, at := range slices.Backward(s.slots) {
		p := at.pod
		if p == nil {
			continue
		}
		available := healthy(p) && s.available(p)
		if !available {
			room--
		}
		switch {
		case at.number < s.first()+s.partition() || revisionOf(p) == s.update.Name || p.DeletionTimestamp != nil:
		case !available && !s.ordered():
			useless = append(useless, p)
		default:
			useful = append(useful, p)
		}
	}
	for _, p := range append(useless, useful[:min(len(useful), max(0, room))]...) {
		if err := s.remove(ctx, p); err != nil {
			return true, err
		}
	}
	return false, nil
}
