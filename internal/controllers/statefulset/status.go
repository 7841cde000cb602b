package statefulset

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/controllers/internal/history"
	"github.com/millrace/millrace/loop"
)

// status computes the status.
func (s *state) status() appsv1.StatefulSetStatus {
	out := appsv1.StatefulSetStatus{
		ObservedGeneration: s.set.Generation, CollisionCount: cmp.Or(s.set.Status.CollisionCount, new(int32)), Conditions: s.set.Status.Conditions,
		CurrentRevision: s.current.Name, UpdateRevision: s.update.Name,
	}
	for _, at := range slices.Concat(s.slots, s.condemned) {
		p := at.pod
		if p == nil {
			continue
		}
		out.Replicas++
		if running(p) {
			out.ReadyReplicas++
		}
		if s.available(p) {
			out.AvailableReplicas++
		}
		if p.DeletionTimestamp != nil {
			continue
		}
		if revisionOf(p) == s.current.Name {
			out.CurrentReplicas++
		}
		if revisionOf(p) == s.update.Name {
			out.UpdatedReplicas++
		}
	}
	if s.rolls() && out.UpdatedReplicas == out.Replicas && out.ReadyReplicas == out.Replicas && int(out.Replicas) == s.replicas() {
		out.CurrentReplicas, out.CurrentRevision = out.UpdatedReplicas, out.UpdateRevision
	}
	return out
}

func (c *controller) writeStatus(ctx context.Context, s *state) error {
	status := s.status()
	if apiequality.Semantic.DeepEqual(status, s.set.Status) {
		return nil
	}
	changed := *s.set
	changed.Status = status
	return c.putStatus(ctx, s.key, &changed)
}

// collided increments the collision count, so that the next revision gets another name.
func (c *controller) collided(ctx context.Context, key loop.Key, set *appsv1.StatefulSet) error {
	changed := *set
	changed.Status.CollisionCount = history.Collided(set.Status.CollisionCount)
	return c.putStatus(ctx, key, &changed)
}

func (c *controller) putStatus(ctx context.Context, key loop.Key, set *appsv1.StatefulSet) error {
	written, err := c.kube.AppsV1().StatefulSets(set.Namespace).UpdateStatus(ctx, set, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("write status of stateful set %s: %w", key, err)
	}
	loop.Wrote(ctx, c.sets, written.ResourceVersion)
	return nil
}
