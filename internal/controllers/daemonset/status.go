package daemonset

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/controllers/internal/history"
	"github.com/millrace/millrace/loop"
)

// status computes the status.
func (s *state) status() appsv1.DaemonSetStatus {
	out := appsv1.DaemonSetStatus{
		ObservedGeneration: s.ds.Generation, CollisionCount: s.ds.Status.CollisionCount, Conditions: s.ds.Status.Conditions,
	}
	for i := range s.nodes {
		at := &s.nodes[i]
		switch {
		case at.run:
			out.DesiredNumberScheduled++
			s.count(at, &out)
		case len(at.pods) > 0:
			out.NumberMisscheduled++
		}
	}
	out.NumberUnavailable = out.DesiredNumberScheduled - out.NumberAvailable
	return out
}

// count counts the oldest pod of a node.
func (s *state) count(at *post, out *appsv1.DaemonSetStatus) {
	if len(at.pods) == 0 {
		return
	}
	out.CurrentNumberScheduled++
	pod := at.pods[0]
	if s.updated(pod) {
		out.UpdatedNumberScheduled++
	}
	if pod.Ready {
		out.NumberReady++
	}
	if s.available(pod) {
		out.NumberAvailable++
	}
	for _, pod := range at.pods { // the newer pod of a pair may become available later
		if pod.Ready && !s.available(pod) {
			s.again(pod.ReadyChanged.Add(s.minReady).Sub(s.now))
		}
	}
}

func (c *controller) writeStatus(ctx context.Context, s *state) error {
	status := s.status()
	if apiequality.Semantic.DeepEqual(status, s.ds.Status) {
		return nil
	}
	changed := *s.ds
	changed.Status = status
	return c.putStatus(ctx, s.key, &changed)
}

// collided increments the collision count, so that the next revision gets another name.
func (c *controller) collided(ctx context.Context, key loop.Key, ds *appsv1.DaemonSet) error {
	changed := *ds
	changed.Status.CollisionCount = history.Collided(ds.Status.CollisionCount)
	return c.putStatus(ctx, key, &changed)
}

func (c *controller) putStatus(ctx context.Context, key loop.Key, ds *appsv1.DaemonSet) error {
	written, err := c.kube.AppsV1().DaemonSets(ds.Namespace).UpdateStatus(ctx, ds, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("write status of daemon set %s: %w", key, err)
	}
	loop.Wrote(ctx, c.sets, written.ResourceVersion)
	return nil
}
