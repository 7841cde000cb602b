package deployment

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/internal/controllers/owned"
)

// oneSync is one sync of a Deployment. Its writes are also stored in the rollout, so that later ones see them.
type oneSync struct {
	*controller
	*rollout
	key key
}

// run does what can be done now.
func (s *oneSync) run(ctx context.Context) error {
	if status := *s.d.Status.DeepCopy(); s.pauseNoted(&status) {
		if err := s.writeStatus(ctx, status); err != nil {
			return err
		}
	}
	if s.d.Spec.Paused {
		return s.rescale(ctx)
	}
	if s.d.Annotations[rollbackKey] != "" {
		return s.rollBack(ctx)
	}
	if s.scaled() {
		return s.rescale(ctx)
	}
	if s.recreates() {
		return s.recreate(ctx)
	}
	return s.roll(ctx)
}

// rescale handles a change of size without continuing the rollout.
func (s *oneSync) rescale(ctx context.Context) error {
	if err := s.keepCurrent(ctx); err != nil {
		return err
	}
	if err := s.apply(ctx, s.scale()); err != nil {
		return err
	}
	if s.d.Spec.Paused && s.d.Annotations[rollbackKey] == "" {
		if err := s.forget(ctx); err != nil {
			return err
		}
	}
	return s.writeStatus(ctx, s.counts())
}

// roll continues a rolling update: it grows if there is room, and otherwise shrinks if possible.
func (s *oneSync) roll(ctx context.Context) error {
	if err := s.needCurrent(ctx); err != nil {
		return err
	}
	changes := s.grow()
	if len(changes) == 0 {
		changes = s.shrink()
	}
	return s.finish(ctx, changes)
}

// recreate first drains the old ReplicaSets, then waits until their pods have ended, and only then grows the new one.
func (s *oneSync) recreate(ctx context.Context) error {
	if err := s.keepCurrent(ctx); err != nil {
		return err
	}
	if down := s.drain(); len(down) > 0 {
		return s.finish(ctx, down)
	}
	if s.oldPodsRun() {
		return s.finish(ctx, nil)
	}
	if err := s.needCurrent(ctx); err != nil {
		return err
	}
	if want := replicas(s.d); size(s.current) != want {
		return s.finish(ctx, []resize{{s.current, want}})
	}
	return s.finish(ctx, nil)
}

// finish applies changes, deletes old ReplicaSets once the rollout is complete, and writes the status.
func (s *oneSync) finish(ctx context.Context, changes []resize) error {
	if err := s.apply(ctx, changes); err != nil {
		return err
	}
	if complete(s.d, &s.d.Status) {
		if err := s.forget(ctx); err != nil {
			return err
		}
	}
	return s.writeStatus(ctx, s.status())
}

// oldPodsRun reports whether a pod of an old template may still have a running container.
func (s *oneSync) oldPodsRun() bool {
	if sum(s.old, existing) > 0 {
		return true
	}
	for _, set := range s.old {
		for pod := range owned.By(s.pods, set) {
			if !pod.Finished() {
				return true
			}
		}
	}
	return false
}

// needCurrent ensures that the current template has its ReplicaSet.
func (s *oneSync) needCurrent(ctx context.Context) error {
	if s.current == nil {
		if err := s.createCurrent(ctx); err != nil {
			return err
		}
	}
	return s.keepCurrent(ctx)
}

// keepCurrent updates the current ReplicaSet, if it exists, with everything except template and size.
func (s *oneSync) keepCurrent(ctx context.Context) error {
	if s.current == nil {
		return nil
	}
	set := s.current.DeepCopy()
	changed := copyAnnotations(s.d, set)
	changed = promote(set, s.revision()) || changed
	if set.Spec.MinReadySeconds != s.d.Spec.MinReadySeconds {
		set.Spec.MinReadySeconds = s.d.Spec.MinReadySeconds
		changed = true
	}
	if changed {
		if err := s.updateSet(ctx, set); err != nil {
			return err
		}
	}
	if err := s.writeRevision(ctx, s.current.Annotations[revisionKey]); err != nil {
		return err
	}
	if findCondition(&s.d.Status, appsv1.DeploymentProgressing) == nil && s.hasDeadline() {
		status := *s.d.Status.DeepCopy()
		setCondition(&status, s.condition(appsv1.DeploymentProgressing, corev1.ConditionTrue, reasonSetFound,
			"Found new replica set \""+s.current.Name+"\""))
		return s.writeStatus(ctx, status)
	}
	return nil
}

// forget deletes old ReplicaSets beyond the history limit.
func (s *oneSync) forget(ctx context.Context) error {
	for _, set := range expired(s.d, s.old) {
		if err := s.deleteSet(ctx, set); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
