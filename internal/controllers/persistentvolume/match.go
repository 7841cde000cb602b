package persistentvolume

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace/millrace/loop"
)

// names reports whether a volume names a claim, with its UID or only by name.
func names(v *corev1.PersistentVolume, c *corev1.PersistentVolumeClaim) bool {
	ref := v.Spec.ClaimRef
	return ref != nil && ref.Name == c.Name && ref.Namespace == c.Namespace && (ref.UID == "" || ref.UID == c.UID)
}

// match finds a volume for a claim that names none: one that names the claim, or else the smallest sufficient one that
// no other claim has been given. With onlyNamed, only one that names the claim. The error is loop.ErrBehind if one may
// become free again that is given to another claim.
func (r *controller) match(c *corev1.PersistentVolumeClaim, onlyNamed bool) (*corev1.PersistentVolume, error) {
	for v := range r.volumes.By(byClaim, c.Namespace+"/"+c.Name) {
		if names(v, c) && v.DeletionTimestamp == nil && fits(v, c) && hasModes(v, c) {
			return v, nil
		}
	}
	if onlyNamed {
		return nil, nil
	}
	selector := labels.Everything()
	if c.Spec.Selector != nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(c.Spec.Selector); err != nil {
			return nil, fmt.Errorf("error creating internal label selector for claim: %v/%v: %w", c.Namespace, c.Name, err)
		}
	}
	r.given.mu.Lock()
	defer r.given.mu.Unlock()
	var best *corev1.PersistentVolume
	contended := false
	for v := range r.volumes.By(free, ClassOfClaim(c)) {
		if !available(v) || !fits(v, c) || !hasModes(v, c) || !selector.Matches(labels.Set(v.Labels)) {
			continue
		}
		if r.given.toAnother(v, c) {
			contended = true
			continue
		}
		if best == nil || sizeOf(v).Cmp(*sizeOf(best)) < 0 {
			best = v
		}
	}
	switch {
	case best != nil:
		r.given.note(best, c)
	case contended:
		return nil, loop.ErrBehind
	}
	return best, nil
}

// fits reports whether a volume has the size, modes and labels that a claim asks for.
func fits(v *corev1.PersistentVolume, c *corev1.PersistentVolumeClaim) bool {
	wanted := c.Spec.Resources.Requests[corev1.ResourceStorage]
	return modeOf(v.Spec.VolumeMode) == modeOf(c.Spec.VolumeMode) && sizeOf(v).Cmp(wanted) >= 0 && attributesOf(v.Spec.VolumeAttributesClassName) == attributesOf(c.Spec.VolumeAttributesClassName)
}

func sizeOf(v *corev1.PersistentVolume) *resource.Quantity {
	q := v.Spec.Capacity[corev1.ResourceStorage]
	return &q
}

func attributesOf(name *string) string {
	if name == nil {
		return ""
	}
	return *name
}

// satisfies returns why a volume that a claim names cannot be used for the claim, or nil.
func satisfies(v *corev1.PersistentVolume, c *corev1.PersistentVolumeClaim) error {
	wanted := c.Spec.Resources.Requests[corev1.ResourceStorage]
	switch {
	case v.DeletionTimestamp != nil:
		return fmt.Errorf("the volume is marked for deletion %q", v.Name)
	case sizeOf(v).Cmp(wanted) < 0:
		return errors.New("requested PV is too small")
	case ClassOfClaim(c) != ClassOfVolume(v):
		return errors.New("storageClassName does not match")
	case attributesOf(v.Spec.VolumeAttributesClassName) != attributesOf(c.Spec.VolumeAttributesClassName):
		return errors.New("volumeAttributesClassName does not match")
	case modeOf(v.Spec.VolumeMode) != modeOf(c.Spec.VolumeMode):
		return errors.New("incompatible volumeMode")
	case !hasModes(v, c):
		return errors.New("incompatible accessMode")
	}
	return nil
}
