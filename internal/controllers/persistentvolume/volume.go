package persistentvolume

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/loop"
)

// syncVolume sets a volume's phase, and reclaims it if its claim is gone.
func (r *controller) syncVolume(ctx context.Context, key loop.Key) (loop.Result, error) {
	volume, ok := r.volumes.Lookup(key)
	if !ok {
		r.given.seen(key.Name, "")
		return loop.Result{}, nil
	}
	r.given.seen(key.Name, volume.ResourceVersion)
	ref := volume.Spec.ClaimRef
	if ref == nil || ref.UID == "" { // available; a claim that it names will be bound to it
		_, err := r.volumePhase(ctx, volume, corev1.VolumeAvailable)
		return loop.Result{}, err
	}
	claim, err := r.claimOf(ctx, volume)
	switch {
	case err != nil:
		return loop.Result{}, err
	case claim == nil:
		return r.released(ctx, volume)
	case claim.Spec.VolumeName == "":
		// The loop of claims completes the binding.
		if modeOf(claim.Spec.VolumeMode) != modeOf(volume.Spec.VolumeMode) {
			r.recorder.Eventf(volume, corev1.EventTypeWarning, "VolumeMismatch", "Cannot bind PersistentVolume to requested PersistentVolumeClaim %q due to incompatible volumeMode.", claim.Name)
			r.recorder.Eventf(claim, corev1.EventTypeWarning, "VolumeMismatch", "Cannot bind PersistentVolume %q to requested PersistentVolumeClaim due to incompatible volumeMode.", volume.Name)
		}
		return loop.Result{}, nil
	case claim.Spec.VolumeName == volume.Name:
		_, err := r.volumePhase(ctx, volume, corev1.VolumeBound)
		return loop.Result{}, err
	}
	// The claim has another volume.
	if volume.Annotations[ProvisionedBy] != "" && volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
		return r.released(ctx, volume)
	}
	return loop.Result{}, r.unbind(ctx, volume)
}

// claimOf returns the claim of a volume, or nil if it is gone. That is checked with the API: the volume may have been
// bound by another process that saw the claim before our cache did.
func (r *controller) claimOf(ctx context.Context, volume *corev1.PersistentVolume) (*corev1.PersistentVolumeClaim, error) {
	ref := volume.Spec.ClaimRef
	claim, found := r.claims.Get(ref.Namespace, ref.Name)
	if found && claim.UID == ref.UID {
		return claim, nil
	}
	if volume.Status.Phase == corev1.VolumeReleased || volume.Status.Phase == corev1.VolumeFailed {
		return nil, nil // it was checked before
	}
	claim, err := r.kube.CoreV1().PersistentVolumeClaims(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && claim.UID != ref.UID {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read claim %s/%s of volume %s: %w", ref.Namespace, ref.Name, volume.Name, err)
	}
	return claim, nil
}

// released sets a volume's phase to Released, and applies its reclaim policy.
func (r *controller) released(ctx context.Context, volume *corev1.PersistentVolume) (loop.Result, error) {
	if p := volume.Status.Phase; p != corev1.VolumeReleased && p != corev1.VolumeFailed {
		var err error
		if volume, err = r.volumePhase(ctx, volume, corev1.VolumeReleased); err != nil {
			return loop.Result{}, err
		}
	}
	if volume.Annotations[migratedTo] != "" {
		return loop.Result{}, nil // a CSI driver reclaims it
	}
	switch volume.Spec.PersistentVolumeReclaimPolicy {
	case corev1.PersistentVolumeReclaimRetain:
		return loop.Result{}, nil
	case corev1.PersistentVolumeReclaimDelete:
		if volume.Annotations[ProvisionedBy] != "" || volume.Spec.CSI != nil {
			return loop.Result{}, nil // its provisioner deletes it; that of a CSI driver also if it has not made it
		}
		return loop.Result{}, r.failed(ctx, volume, "VolumeFailedDelete", deleteFailure(volume))
	case corev1.PersistentVolumeReclaimRecycle:
		return r.recycle(ctx, volume)
	}
	return loop.Result{}, r.failed(ctx, volume, "VolumeUnknownReclaimPolicy", "Volume has unrecognized PersistentVolumeReclaimPolicy")
}

func deleteFailure(volume *corev1.PersistentVolume) string {
	if h := volume.Spec.HostPath; h != nil {
		return fmt.Sprintf("host_path deleter only supports /tmp/.+ but received provided %s", h.Path)
	}
	return fmt.Sprintf("error getting deleter volume plugin for volume %q: no deletable volume plugin matched", volume.Name)
}
