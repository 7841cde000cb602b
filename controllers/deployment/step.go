package deployment

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/controllers/owned"
)

// A step is one pass over one deployment. What it writes it also notes in its
// rollout, so that what comes later in the pass sees it.
type step struct {
	*controller
	*rollout
	key key
}

// run does what can be done now.
func (s *step) run(ctx context.Context) error {
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

// rescale follows a change of size without moving the rollout on.
func (s *step) rescale(ctx context.Context) error {
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

// roll takes a rolling update one step further: up if there is room, else down
// if something can be spared.
func (s *step) roll(ctx context.Context) error {
	if err := s.needCurrent(ctx); err != nil {
		return err
	}
	changes := s.grow()
	if len(changes) == 0 {
		changes = s.shrink()
	}
	return s.finish(ctx, changes)
}

// recreate first empties the old replica sets, then waits until their pods have
// ended, and only then fills the new one.
func (s *step) recreate(ctx context.Context) error {
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

// finish applies changes, drops history once the rollout is complete, and
// writes the status.
func (s *step) finish(ctx context.Context, changes []resize) error {
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

// oldPodsRun says that a pod of an old template may still have a running container.
func (s *step) oldPodsRun() bool {
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

// needCurrent makes sure that the present template has its replica set.
func (s *step) needCurrent(ctx context.Context) error {
	if s.current == nil {
		if err := s.createCurrent(ctx); err != nil {
			return err
		}
	}
	return s.keepCurrent(ctx)
}

// keepCurrent brings the current replica set, if it exists, in line with what
// the deployment says beside its template and size.
func (s *step) keepCurrent(ctx context.Context) error {
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

// forget deletes old replica sets beyond the limit of the history.
func (s *step) forget(ctx context.Context) error {
	for _, set := range expired(s.d, s.old) {
		if err := s.deleteSet(ctx, set); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
