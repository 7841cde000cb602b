package replicaset

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/controllers/owned"
	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
)

// woken returns the ReplicaSets that a change of a pod concerns: old and new owner, and for an orphan those that might
// adopt it.
func (r *controller) woken(l *loop.Loop, before, after *podview.Pod) []loop.Key {
	r.wakeOwner(l, after)
	if before != nil && (after == nil || before.ControllerUID() != after.ControllerUID()) {
		r.wakeOwner(l, before)
	}
	if after == nil || !owned.Orphan(after) || !after.Active() {
		return nil
	}
	if before != nil && owned.Orphan(before) && maps.Equal(before.Labels, after.Labels) {
		return nil
	}
	return owned.MatchingOwners(r.sets, after, func(rs *appsv1.ReplicaSet) *metav1.LabelSelector { return rs.Spec.Selector })
}

func (r *controller) wakeOwner(l *loop.Loop, pod *podview.Pod) {
	if pod == nil {
		return
	}
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || ref.Kind != r.kind.Kind {
		return
	}
	key := loop.Key{Namespace: pod.Namespace, Name: ref.Name}
	l.AddAfter(key, r.pace.Of(key))
}
