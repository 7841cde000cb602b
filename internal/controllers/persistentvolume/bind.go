package persistentvolume

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// wrapf adds to an error what was being done.
func wrapf(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}

// bind binds a volume and a claim to each other. What was already written is left, so an interrupted binding is
// completed.
func (r *controller) bind(ctx context.Context, volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) error {
	volume, err := r.bindVolume(ctx, volume, claim)
	if err != nil {
		return err
	}
	if volume, err = r.volumePhase(ctx, volume, corev1.VolumeBound); err != nil {
		return err
	}
	if claim, err = r.bindClaim(ctx, volume, claim); err != nil {
		return err
	}
	_, err = r.claimStatus(ctx, claim, corev1.ClaimBound, volume)
	return err
}

func (r *controller) bindVolume(ctx context.Context, volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolume, error) {
	ref := volume.Spec.ClaimRef
	if ref != nil && ref.Name == claim.Name && ref.Namespace == claim.Namespace && ref.UID == claim.UID {
		return volume, nil
	}
	changed := volume.DeepCopy()
	if !names(volume, claim) {
		metav1.SetMetaDataAnnotation(&changed.ObjectMeta, boundByController, "yes")
	}
	changed.Spec.ClaimRef = &corev1.ObjectReference{
		Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
	}
	written, err := r.volumeWriter.Update(ctx, changed)
	return written, wrapf(err, "bind volume %s to claim %s/%s", volume.Name, claim.Namespace, claim.Name)
}

func (r *controller) bindClaim(ctx context.Context, volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolumeClaim, error) {
	changed := claim.DeepCopy()
	if changed.Spec.VolumeName != volume.Name {
		changed.Spec.VolumeName = volume.Name
		metav1.SetMetaDataAnnotation(&changed.ObjectMeta, boundByController, "yes")
	}
	if changed.Annotations[bindCompleted] == "" {
		metav1.SetMetaDataAnnotation(&changed.ObjectMeta, bindCompleted, "yes")
	} else if claim.Spec.VolumeName == volume.Name {
		return claim, nil
	}
	written, err := r.claimWriter.Update(ctx, changed)
	return written, wrapf(err, "bind claim %s/%s to volume %s", claim.Namespace, claim.Name, volume.Name)
}

// unbind removes a claim from a volume: completely if this loop had set it, or else to what the user had set.
func (r *controller) unbind(ctx context.Context, volume *corev1.PersistentVolume) error {
	changed := volume.DeepCopy()
	if changed.Annotations[boundByController] != "" {
		changed.Spec.ClaimRef = nil
		delete(changed.Annotations, boundByController)
	} else if changed.Spec.ClaimRef != nil {
		changed.Spec.ClaimRef.UID = ""
	}
	written, err := r.volumeWriter.Update(ctx, changed)
	if err != nil {
		return fmt.Errorf("take the claim off volume %s: %w", volume.Name, err)
	}
	_, err = r.volumePhase(ctx, written, corev1.VolumeAvailable)
	return err
}

func (r *controller) volumePhase(ctx context.Context, volume *corev1.PersistentVolume, phase corev1.PersistentVolumePhase) (*corev1.PersistentVolume, error) {
	return r.volumeStatus(ctx, volume, phase, "")
}

func (r *controller) volumeStatus(ctx context.Context, volume *corev1.PersistentVolume, phase corev1.PersistentVolumePhase, message string) (*corev1.PersistentVolume, error) {
	if volume.Status.Phase == phase {
		return volume, nil
	}
	changed := volume.DeepCopy()
	changed.Status.Phase, changed.Status.Message = phase, message
	written, err := r.volumeWriter.UpdateStatus(ctx, changed)
	return written, wrapf(err, "say that volume %s is %s", volume.Name, phase)
}

// failed sets a volume's phase to Failed, with a reason.
func (r *controller) failed(ctx context.Context, volume *corev1.PersistentVolume, reason, message string) error {
	if volume.Status.Phase == corev1.VolumeFailed {
		return nil
	}
	written, err := r.volumeStatus(ctx, volume, corev1.VolumeFailed, message)
	if err == nil {
		r.recorder.Eventf(written, corev1.EventTypeWarning, reason, "%s", message)
	}
	return err
}

// claimStatus writes a claim's phase and, if it has a volume, its capacity and access modes. The capacity of a claim
// that was bound before is not changed: a file system may be smaller than its volume while it is being expanded.
func (r *controller) claimStatus(ctx context.Context, claim *corev1.PersistentVolumeClaim, phase corev1.PersistentVolumeClaimPhase,
	volume *corev1.PersistentVolume) (*corev1.PersistentVolumeClaim, error) {
	changed := claim.DeepCopy()
	s, same := &changed.Status, claim.Status.Phase == phase
	s.Phase = phase
	if volume == nil {
		same = same && s.AccessModes == nil && s.Capacity == nil && s.CurrentVolumeAttributesClassName == nil
		s.AccessModes, s.Capacity, s.CurrentVolumeAttributesClassName = nil, nil, nil
	} else {
		if !slices.Equal(s.AccessModes, volume.Spec.AccessModes) {
			s.AccessModes, same = volume.Spec.AccessModes, false
		}
		if claim.Status.Phase != phase {
			has := s.Capacity[corev1.ResourceStorage]
			if sizeOf(volume).Cmp(has) != 0 || s.Capacity == nil {
				s.Capacity = volume.Spec.Capacity
			}
			if name := attributesOf(volume.Spec.VolumeAttributesClassName); name != "" {
				s.CurrentVolumeAttributesClassName = &name
			}
		}
	}
	if same {
		return claim, nil
	}
	written, err := r.claimWriter.UpdateStatus(ctx, changed)
	return written, wrapf(err, "say that claim %s/%s is %s", claim.Namespace, claim.Name, phase)
}
