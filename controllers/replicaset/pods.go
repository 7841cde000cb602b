package replicaset

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/controllers/owned"
	"github.com/millrace/millrace/controllers/podview"
	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

// burst is the number of pods created or deleted in one pass. Between passes
// the status is written, so that people and deployments see a large set grow.
const burst = 500

// resize creates or deletes what the replica set has too few or too many of.
func (r *controller) resize(ctx context.Context, key loop.Key, rs *appsv1.ReplicaSet, active []*podview.Pod) error {
	missing := replicas(rs) - len(active)
	switch {
	case missing > 0:
		return r.create(ctx, key, rs, min(missing, burst))
	case missing < 0:
		n := min(-missing, burst)
		return r.delete(ctx, key, rs, choose(active, n, r.family(rs), r.now()))
	}
	return nil
}

func (r *controller) create(ctx context.Context, key loop.Key, rs *appsv1.ReplicaSet, n int) error {
	template := r.podOf(rs)
	_, err := loop.SlowStart(ctx, n, func(ctx context.Context, _ int) error {
		fresh := *template
		pod, err := r.kube.CoreV1().Pods(rs.Namespace).Create(ctx, &fresh, metav1.CreateOptions{})
		if err != nil {
			return r.notCreated(ctx, key, rs, err)
		}
		r.writes.Wrote(key, r.pods, pod.ResourceVersion)
		r.recorder.Eventf(rs, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: %v", pod.Name)
		return nil
	})
	return err
}

func (r *controller) notCreated(ctx context.Context, key loop.Key, rs *appsv1.ReplicaSet, err error) error {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return err
	}
	if unsure(err) {
		r.catchUp(ctx, key, rs.Namespace)
	}
	r.recorder.Eventf(rs, corev1.EventTypeWarning, "FailedCreate", "Error creating: %v", err)
	return err
}

// unsure says that a write may have been done although it failed: no server
// has said that it was not.
func unsure(err error) bool {
	var answer apierrors.APIStatus
	return !errors.As(err, &answer) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
}

// catchUp makes the next pass wait until the cache shows everything up to now,
// so that a pod that was created without our hearing of it is counted.
func (r *controller) catchUp(ctx context.Context, key loop.Key, namespace string) {
	now, err := r.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err == nil {
		r.writes.Wrote(key, r.pods, now.ResourceVersion)
	}
}

func (r *controller) delete(ctx context.Context, key loop.Key, rs *appsv1.ReplicaSet, pods []*podview.Pod) error {
	_, err := loop.SlowStart(ctx, len(pods), func(ctx context.Context, i int) error {
		pod := pods[i]
		err := r.kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &pod.UID},
		})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			r.recorder.Eventf(rs, corev1.EventTypeWarning, "FailedDelete", "Error deleting: %v", err)
			return err
		}
		loop.Removed(&r.writes, key, r.pods, pod)
		if err == nil {
			r.recorder.Eventf(rs, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: %v", pod.Name)
		}
		return nil
	})
	return err
}

// family counts on each node the pods of this replica set and of those that
// have the same controller.
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

func (r *controller) patch(ctx context.Context, key loop.Key, pod *podview.Pod, patch []byte) error {
	written, err := r.kube.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("patch pod %s: %w", informer.KeyOf(pod), err)
	}
	r.writes.Wrote(key, r.pods, written.ResourceVersion)
	return nil
}

// podOf is the pod that a replica set's template makes.
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
