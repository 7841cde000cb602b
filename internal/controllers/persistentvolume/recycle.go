package persistentvolume

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
)

const (
	recyclerNamespace = metav1.NamespaceDefault
	recyclerImage     = "registry.k8s.io/build-image/debian-base:bookworm-v1.0.6"
	recyclerScript    = `test -e /scrub && find /scrub -mindepth 1 -delete && test -z "$(ls -A /scrub)" || exit 1`
	// recyclerPoll is how often a recycler pod is checked. The policy is deprecated, so nothing watches the pod.
	recyclerPoll = 5 * time.Second
	// A recycler pod may take this long for the first GiB and for each further one.
	recyclerFirst, recyclerNext = 60 * time.Second, 30 * time.Second
)

// recycle empties a volume with a pod, and makes it available again.
func (r *controller) recycle(ctx context.Context, volume *corev1.PersistentVolume) (loop.Result, error) {
	if volume.Spec.HostPath == nil && volume.Spec.NFS == nil {
		return loop.Result{}, r.failed(ctx, volume, "VolumeFailedRecycle", "No recycler plugin found for the volume!")
	}
	used, err := r.users(ctx, volume)
	if err != nil {
		return loop.Result{}, err
	}
	if len(used) > 0 {
		r.recorder.Eventf(volume, corev1.EventTypeNormal, "VolumeFailedRecycle", "Volume is used by pods: %s", strings.Join(used, ","))
		return loop.Result{After: recyclerPoll}, nil
	}
	pods := r.kube.CoreV1().Pods(recyclerNamespace)
	pod, err := pods.Get(ctx, recyclerFor(volume).Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		pod, err = pods.Create(ctx, recyclerFor(volume), metav1.CreateOptions{})
		if err == nil {
			r.recorder.Eventf(volume, corev1.EventTypeNormal, "RecyclerPod", "Recycler pod: Created pod %s/%s", pod.Namespace, pod.Name)
		}
	}
	if err != nil {
		return loop.Result{}, fmt.Errorf("recycle volume %s: %w", volume.Name, err)
	}
	if !loop.PodFinished(pod) {
		return loop.Result{After: recyclerPoll}, nil
	}
	if pod.Status.Phase == corev1.PodFailed {
		if err := r.failed(ctx, volume, "VolumeFailedRecycle", "Recycle failed: "+pod.Status.Message); err != nil {
			return loop.Result{}, err
		}
		return loop.Result{After: recyclerFirst}, r.deleteRecycler(ctx, pod)
	}
	r.recorder.Eventf(volume, corev1.EventTypeNormal, "VolumeRecycled", "Volume recycled")
	if err := r.unbind(ctx, volume); err != nil {
		return loop.Result{}, err
	}
	return loop.Result{}, r.deleteRecycler(ctx, pod)
}

func (r *controller) deleteRecycler(ctx context.Context, pod *corev1.Pod) error {
	err := r.kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return wrapf(err, "delete the recycler %s", pod.Name)
}

// users returns the pods that still use a released volume. The API is read, because the volume is about to be emptied,
// and the cache may not show the last pod yet.
func (r *controller) users(ctx context.Context, volume *corev1.PersistentVolume) ([]string, error) {
	ref := volume.Spec.ClaimRef
	if r.claims.Has(loop.Key{Namespace: ref.Namespace, Name: ref.Name}) {
		return nil, nil // a newer claim of that name, with another volume
	}
	pods, err := r.kube.CoreV1().Pods(ref.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the pods that may use volume %s: %w", volume.Name, err)
	}
	var used []string
	for i := range pods.Items {
		if pod := podview.Of(&pods.Items[i]); !pod.Finished() && slices.Contains(pod.Claims, ref.Name) {
			used = append(used, pod.Namespace+"/"+pod.Name)
		}
	}
	return used, nil
}

// recyclerFor returns the pod that empties a volume.
func recyclerFor(volume *corev1.PersistentVolume) *corev1.Pod {
	limit := max(recyclerFirst, recyclerNext*time.Duration(sizeOf(volume).Value()>>30))
	source := corev1.VolumeSource{HostPath: volume.Spec.HostPath, NFS: volume.Spec.NFS}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "recycler-for-" + volume.Name, Namespace: recyclerNamespace},
		Spec: corev1.PodSpec{
			ActiveDeadlineSeconds: new(int64(limit / time.Second)),
			RestartPolicy:         corev1.RestartPolicyNever,
			Volumes:               []corev1.Volume{{Name: "vol", VolumeSource: source}},
			Containers: []corev1.Container{{
				Name: "pv-recycler", Image: recyclerImage, Command: []string{"/bin/sh"}, Args: []string{"-c", recyclerScript},
				VolumeMounts: []corev1.VolumeMount{{Name: "vol", MountPath: "/scrub"}},
			}},
		},
	}
}
