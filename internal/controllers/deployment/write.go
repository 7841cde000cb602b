package deployment

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

type key = loop.Key

// apply resizes ReplicaSets and records events.
func (s *oneSync) apply(ctx context.Context, changes []resize) error {
	for _, change := range changes {
		set := change.set.DeepCopy()
		before := size(set)
		set.Spec.Replicas = new(number(change.to))
		if !markSize(set, s.d) && before == change.to {
			continue
		}
		if err := s.updateSet(ctx, set); err != nil {
			return err
		}
		if before != change.to {
			s.saySized(set.Name, before, change.to)
		}
	}
	return nil
}

func (s *oneSync) saySized(name string, from, to int) {
	direction := "up"
	if to < from {
		direction = "down"
	}
	s.recorder.Eventf(s.d, corev1.EventTypeNormal, "ScalingReplicaSet", "Scaled %s replica set %s from %d to %d", direction, name, from, to)
}

// createCurrent creates the ReplicaSet of the current template, with the size that it may have at once.
func (s *oneSync) createCurrent(ctx context.Context) error {
	set := newSet(s.d)
	promote(set, s.revision())
	to := s.firstSize()
	set.Spec.Replicas = new(number(to))
	markSize(set, s.d)
	written, err := s.kube.AppsV1().ReplicaSets(set.Namespace).Create(ctx, set, metav1.CreateOptions{})
	switch {
	case err == nil:
	case apierrors.IsAlreadyExists(err):
		return s.nameTaken(ctx, set)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return err
	default:
		return s.notCreated(ctx, set, err)
	}
	loop.Wrote(ctx, s.sets, written.ResourceVersion)
	s.current = written
	if to > 0 {
		s.saySized(written.Name, 0, to)
	}
	if s.hasDeadline() {
		setCondition(&s.d.Status, s.condition(appsv1.DeploymentProgressing, corev1.ConditionTrue, reasonSetCreated,
			fmt.Sprintf("Created new replica set %q", written.Name)))
	}
	return s.putStatus(ctx)
}

// nameTaken handles a name that exists: it may be our own ReplicaSet, which the cache did not show. If it is another
// one, the next attempt uses another name.
func (s *oneSync) nameTaken(ctx context.Context, set *appsv1.ReplicaSet) error {
	taken, err := s.kube.AppsV1().ReplicaSets(set.Namespace).Get(ctx, set.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("look who has the name of the new replica set: %w", err)
	}
	if metav1.IsControlledBy(taken, s.d) && sameTemplate(&taken.Spec.Template, &s.d.Spec.Template) {
		loop.Wrote(ctx, s.sets, taken.ResourceVersion)
		s.current = taken
		return nil
	}
	collisions := int32(1)
	if s.d.Status.CollisionCount != nil {
		collisions = *s.d.Status.CollisionCount + 1
	}
	s.d.Status.CollisionCount = &collisions
	if err := s.putStatus(ctx); err != nil {
		return err
	}
	return fmt.Errorf("replica set %s of another template has the name of the new one: %w", informer.KeyOf(set), loop.ErrBehind)
}

func (s *oneSync) notCreated(ctx context.Context, set *appsv1.ReplicaSet, cause error) error {
	message := fmt.Sprintf("Failed to create new replica set %q: %v", set.Name, cause)
	if s.hasDeadline() {
		setCondition(&s.d.Status, s.condition(appsv1.DeploymentProgressing, corev1.ConditionFalse, reasonSetFailed, message))
		_ = s.putStatus(ctx) // the first error is the one to return
	}
	s.recorder.Eventf(s.d, corev1.EventTypeWarning, reasonSetFailed, "%s", message)
	return fmt.Errorf("create replica set %s: %w", informer.KeyOf(set), cause)
}

func (s *oneSync) updateSet(ctx context.Context, set *appsv1.ReplicaSet) error {
	written, err := s.kube.AppsV1().ReplicaSets(set.Namespace).Update(ctx, set, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("update replica set %s: %w", informer.KeyOf(set), err)
	}
	loop.Wrote(ctx, s.sets, written.ResourceVersion)
	s.replaced(written)
	return nil
}

func (s *oneSync) deleteSet(ctx context.Context, set *appsv1.ReplicaSet) error {
	err := s.kube.AppsV1().ReplicaSets(set.Namespace).Delete(ctx, set.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &set.UID, ResourceVersion: &set.ResourceVersion},
	})
	if err != nil {
		return fmt.Errorf("delete replica set %s: %w", informer.KeyOf(set), err)
	}
	loop.Removed(ctx, s.sets, set)
	return nil
}

// writeRevision stores the revision on the Deployment. It is written with the status, because a write of annotations
// would increase the generation.
func (s *oneSync) writeRevision(ctx context.Context, revision string) error {
	if s.d.Annotations[revisionKey] == revision {
		return nil
	}
	d := *s.d
	d.Annotations = maps.Clone(d.Annotations)
	metav1.SetMetaDataAnnotation(&d.ObjectMeta, revisionKey, revision)
	written, err := s.kube.AppsV1().Deployments(d.Namespace).UpdateStatus(ctx, &d, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("note revision %s on deployment %s: %w", revision, s.key, err)
	}
	return s.wrote(ctx, written)
}

// writeStatus writes the status if it has changed.
func (s *oneSync) writeStatus(ctx context.Context, status appsv1.DeploymentStatus) error {
	if apiequality.Semantic.DeepEqual(&s.d.Status, &status) {
		return nil
	}
	s.d.Status = status
	return s.putStatus(ctx)
}

func (s *oneSync) putStatus(ctx context.Context) error {
	written, err := s.kube.AppsV1().Deployments(s.d.Namespace).UpdateStatus(ctx, s.d, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("write status of deployment %s: %w", s.key, err)
	}
	return s.wrote(ctx, written)
}

func (s *oneSync) wrote(ctx context.Context, d *appsv1.Deployment) error {
	loop.Wrote(ctx, s.deployments, d.ResourceVersion)
	s.d = d
	return nil
}

func (c *controller) patchSet(ctx context.Context, key loop.Key, set *appsv1.ReplicaSet, patch []byte) error {
	written, err := c.kube.AppsV1().ReplicaSets(set.Namespace).Patch(ctx, set.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("patch replica set %s: %w", informer.KeyOf(set), err)
	}
	loop.Wrote(ctx, c.sets, written.ResourceVersion)
	return nil
}

// rollBack handles the deprecated rollback annotation: it restores the template of an earlier revision. 0 means the
// revision before the latest.
func (s *oneSync) rollBack(ctx context.Context) error {
	wanted, err := strconv.ParseInt(s.d.Annotations[rollbackKey], 10, 64)
	if err == nil && wanted == 0 {
		wanted = previousRevision(s.all())
	}
	d := s.d.DeepCopy()
	delete(d.Annotations, rollbackKey)
	reason, message, level := "DeploymentRollbackRevisionNotFound", "Unable to find the revision to rollback to.", corev1.EventTypeWarning
	for _, set := range s.all() {
		if wanted == 0 || revisionOf(set) != wanted {
			continue
		}
		if sameTemplate(&set.Spec.Template, &d.Spec.Template) {
			reason, message = "DeploymentRollbackTemplateUnchanged", "The rollback revision contains the same template as current deployment "+strconv.Quote(d.Name)
			break
		}
		d.Spec.Template = *withoutHash(&set.Spec.Template)
		reason, message, level = "DeploymentRollback", fmt.Sprintf("Rolled back deployment %q to revision %d", d.Name, wanted), corev1.EventTypeNormal
		break
	}
	written, err := s.kube.AppsV1().Deployments(d.Namespace).Update(ctx, d, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("roll back deployment %s: %w", s.key, err)
	}
	s.recorder.Eventf(s.d, level, reason, "%s", message)
	return s.wrote(ctx, written)
}
