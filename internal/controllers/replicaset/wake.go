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
func (r *controller) woken(before, after *podview.Pod) []loop.Key {
	keys := r.owner(nil, after)
	if before != nil && (after == nil || before.ControllerUID() != after.ControllerUID()) {
		keys = r.owner(keys, before)
	}
	if after == nil || !owned.Orphan(after) || !after.Active() {
		return keys
	}
	if before != nil && owned.Orphan(before) && maps.Equal(before.Labels, after.Labels) {
		return keys
	}
	return append(keys, owned.MatchingOwners(r.sets, after, func(rs *appsv1.ReplicaSet) *metav1.LabelSelector { return rs.Spec.Selector })...)
}

// owner adds the key of the ReplicaSet that controls a pod.
func (r *controller) owner(keys []loop.Key, pod *podview.Pod) []loop.Key {
	if pod == nil {
		return keys
	}
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || ref.Kind != r.kind.Kind {
		return keys
	}
	return append(keys, loop.Key{Namespace: pod.Namespace, Name: ref.Name})
}
