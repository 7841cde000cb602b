package replicaset

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/controllers/owned"
	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
)

// burst is the number of pods created or deleted in one sync. The status is written after each, so that users and
// Deployments see the progress of a large set.
const burst = 500

// resize creates missing pods or deletes surplus ones.
func (r *controller) resize(ctx context.Context, rs *appsv1.ReplicaSet, active []*podview.Pod) error {
	missing := replicas(rs) - len(active)
	switch {
	case missing > 0:
		return r.create(ctx, rs, min(missing, burst))
	case missing < 0:
		n := min(-missing, burst)
		chosen := choose(active, n, r.family(rs), r.now())
		if r.kind.Chosen != nil {
			compareAges(chosen, active, r.now(), r.kind.Chosen)
		}
		return r.upkeep.Delete(ctx, rs, chosen)
	}
	return nil
}

func (r *controller) create(ctx context.Context, rs *appsv1.ReplicaSet, n int) error {
	template := r.podOf(rs)
	_, err := loop.SlowStart(ctx, n, func(ctx context.Context, _ int) error {
		fresh := *template
		return r.upkeep.Create(ctx, rs, &fresh)
	})
	return err
}

// family counts by node the pods of this ReplicaSet and of others with the same controller.
func (r *controller) family(rs *appsv1.ReplicaSet) map[string]int {
	onNode := map[string]int{}
	add := func(set *appsv1.ReplicaSet) {
		for pod := range owned.By(r.pods, set) {
			if pod.Active() && pod.Node != "" {
				onNode[pod.Node]++
			}
		}
	}
	parent := metav1.GetControllerOfNoCopy(rs)
	if parent == nil {
		add(rs)
		return onNode
	}
	for set := range owned.By(r.sets, &metav1.ObjectMeta{UID: parent.UID}) {
		add(set)
	}
	return onNode
}

// podOf returns a pod from the ReplicaSet's template.
func (r *controller) podOf(rs *appsv1.ReplicaSet) *corev1.Pod {
	t := &rs.Spec.Template
	prefix := rs.Name + "-"
	if len(validation.NameIsDNSSubdomain(prefix, true)) != 0 {
		prefix = rs.Name
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: prefix, Namespace: rs.Namespace,
			Labels: t.Labels, Annotations: t.Annotations, Finalizers: t.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(rs, r.kind.GroupVersionKind)},
		},
		Spec: t.Spec,
	}
}
