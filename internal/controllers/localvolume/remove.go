package localvolume

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/loop"
)

// syncVolume removes the data of a released volume, and then the volume.
func (r *controller) syncVolume(ctx context.Context, key loop.Key) (loop.Result, error) {
	volume, ok := r.volumes.Lookup(key)
	if !ok || !ours(volume) {
		return loop.Result{}, nil
	}
	deletes := volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
	going := volume.DeletionTimestamp != nil
	if volume.Status.Phase == corev1.VolumeBound || !going && (!deletes || volume.Status.Phase != corev1.VolumeReleased) {
		return loop.Result{}, nil
	}
	// Data does not come back: the volume must be as the cache shows it, and not in use again.
	live, err := r.kube.CoreV1().PersistentVolumes().Get(ctx, volume.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return loop.Result{}, nil
	case err != nil:
		return loop.Result{}, fmt.Errorf("read volume %s before its data is removed: %w", volume.Name, err)
	case live.UID != volume.UID || live.ResourceVersion != volume.ResourceVersion:
		return loop.Result{}, loop.ErrBehind
	}
	if deletes {
		if err := r.removeData(ctx, volume); err != nil {
			r.recorder.Eventf(volume, corev1.EventTypeWarning, "VolumeFailedDelete", "%v", err)
			return loop.Result{}, err
		}
	}
	if at := slices.Index(volume.Finalizers, finalizer); at >= 0 {
		changed := volume.DeepCopy()
		changed.Finalizers = slices.Delete(changed.Finalizers, at, at+1)
		written, err := r.volumeWriter.Update(ctx, changed)
		if err != nil {
			return loop.Result{}, fmt.Errorf("let volume %s go: %w", volume.Name, err)
		}
		volume = written
	}
	if going {
		return loop.Result{}, nil
	}
	if err := r.volumeWriter.Delete(ctx, volume); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return loop.Result{}, fmt.Errorf("delete volume %s: %w", volume.Name, err)
	}
	return loop.Result{}, nil
}

// removeData makes the node remove a volume's directory. A node that is gone, or has no server, has no data.
func (r *controller) removeData(ctx context.Context, volume *corev1.PersistentVolume) error {
	node, err := r.kube.CoreV1().Nodes().Get(ctx, volume.Annotations[nodeAnnotation], metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && node.Status.DaemonEndpoints.KubeletEndpoint.Port == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read node %s of volume %s: %w", volume.Annotations[nodeAnnotation], volume.Name, err)
	}
	err = r.kube.CoreV1().RESTClient().Delete().Resource("nodes").Name(node.Name).SubResource("proxy").Suffix("localVolumes", volume.Name).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("node %s cannot remove volume %s: %w", node.Name, volume.Name, err)
	}
	return nil
}
