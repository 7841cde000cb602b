package statefulset

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/internal/history"
	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
)

// podFor returns a new pod for an ordinal.
func (s *state) podFor(number int) (*corev1.Pod, error) {
	revision := s.revisionFor(number)
	t, err := history.Template(revision)
	if err != nil {
		return nil, err
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: podName(s.set, number), Namespace: s.set.Namespace, Annotations: t.Annotations, Finalizers: t.Finalizers,
			Labels:          s.labelsFor(t.Labels, number),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s.set, kind)},
		},
		Spec: t.Spec,
	}
	pod.Labels[appsv1.StatefulSetRevisionLabel] = revision.Name
	pod.Spec.Hostname, pod.Spec.Subdomain = pod.Name, s.set.Spec.ServiceName
	pod.Spec.Volumes = s.volumes(t.Spec.Volumes, number)
	return pod, nil
}

// labelsFor adds the labels with a pod's name and ordinal.
func (s *state) labelsFor(from map[string]string, number int) map[string]string {
	out := map[string]string{}
	maps.Copy(out, from)
	out[appsv1.StatefulSetPodNameLabel] = podName(s.set, number)
	out[appsv1.PodIndexLabel] = strconv.Itoa(number)
	return out
}

// volumes returns a template's volumes, with the claims of an ordinal in place of volumes of the same names.
func (s *state) volumes(template []corev1.Volume, number int) []corev1.Volume {
	var out []corev1.Volume
	for i := range s.set.Spec.VolumeClaimTemplates {
		t := &s.set.Spec.VolumeClaimTemplates[i]
		out = append(out, corev1.Volume{Name: t.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(s.set, t, number)},
		}})
	}
	for _, v := range template {
		if !slices.ContainsFunc(out, func(claim corev1.Volume) bool { return claim.Name == v.Name }) {
			out = append(out, v)
		}
	}
	return out
}

// create creates a missing pod, after its claims.
func (s *state) create(ctx context.Context, number int) error {
	if stale, err := s.staleClaims(number); stale || err != nil {
		return err
	}
	if err := s.makeClaims(ctx, number); err != nil {
		return err
	}
	pod, err := s.podFor(number)
	if err != nil {
		return err
	}
	written, err := s.kube.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	switch {
	case err == nil:
		loop.Wrote(ctx, s.pods, written.ResourceVersion)
		s.recorder.Eventf(s.set, corev1.EventTypeNormal, "SuccessfulCreate", "Create Pod %s in StatefulSet %s successful", pod.Name, s.set.Name)
		return nil
	case apierrors.IsAlreadyExists(err):
		return s.taken(ctx, pod.Name)
	case !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		s.recorder.Eventf(s.set, corev1.EventTypeWarning, "FailedCreate", "Create Pod %s in StatefulSet %s failed error: %s", pod.Name, s.set.Name, err)
	}
	return fmt.Errorf("create pod %s/%s: %w", pod.Namespace, pod.Name, err)
}

// taken handles a name that exists: it waits until the cache shows our own pod. A pod of another owner is an error.
func (s *state) taken(ctx context.Context, name string) error {
	pod, err := s.kube.CoreV1().Pods(s.set.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("look who has the name of a pod: %w", err)
	}
	if !metav1.IsControlledBy(pod, s.set) {
		return fmt.Errorf("create pod %s/%s: another pod has that name", s.set.Namespace, name)
	}
	loop.Wrote(ctx, s.pods, pod.ResourceVersion)
	return nil
}

// remove deletes a pod.
func (s *state) remove(ctx context.Context, p *podview.Pod) error {
	err := s.kube.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(p.UID))})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // it is gone or was replaced
		loop.Removed(ctx, s.pods, p)
		return nil
	}
	if err != nil {
		s.recorder.Eventf(s.set, corev1.EventTypeWarning, "FailedDelete", "Delete Pod %s in StatefulSet %s failed error: %s", p.Name, s.set.Name, err)
		return fmt.Errorf("delete pod %s: %w", informer.KeyOf(p), err)
	}
	loop.Removed(ctx, s.pods, p)
	s.recorder.Eventf(s.set, corev1.EventTypeNormal, "SuccessfulDelete", "Delete Pod %s in StatefulSet %s successful", p.Name, s.set.Name)
	return nil
}

// identify adds the labels of its ordinal to an adopted pod.
func (s *state) identify(ctx context.Context, p *podview.Pod, number int) error {
	wanted := s.labelsFor(nil, number)
	if p.Labels[appsv1.StatefulSetPodNameLabel] == wanted[appsv1.StatefulSetPodNameLabel] && p.Labels[appsv1.PodIndexLabel] == wanted[appsv1.PodIndexLabel] {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID, "labels": wanted}})
	if err != nil {
		return err
	}
	if err := s.patchPod(ctx, s.key, p, patch); err != nil {
		return err
	}
	s.recorder.Eventf(s.set, corev1.EventTypeNormal, "SuccessfulUpdate", "Update Pod %s in StatefulSet %s successful", p.Name, s.set.Name)
	return nil
}

// maxUnavailable returns how many pods may be unavailable during a rolling update.
func (s *state) maxUnavailable() int {
	r := s.set.Spec.UpdateStrategy.RollingUpdate
	if r == nil || r.MaxUnavailable == nil {
		return 1
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(r.MaxUnavailable, s.replicas(), false)
	if err != nil {
		return 1
	}
	return max(1, n)
}
