package statefulset

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

func claimName(set *appsv1.StatefulSet, template *corev1.PersistentVolumeClaim, number int) string {
	return template.Name + "-" + podName(set, number)
}

// claimsOf returns the names of an ordinal's claims, with the claims that the cache shows.
func (s *state) claimsOf(number int) map[string]*corev1.PersistentVolumeClaim {
	out := map[string]*corev1.PersistentVolumeClaim{}
	for i := range s.set.Spec.VolumeClaimTemplates {
		name := claimName(s.set, &s.set.Spec.VolumeClaimTemplates[i], number)
		out[name], _ = s.claims.Get(s.set.Namespace, name)
	}
	return out
}

// staleClaims reports whether claims are being deleted with an earlier pod. The next pod waits for that.
func (s *state) staleClaims(number int) (bool, error) {
	for _, claim := range s.claimsOf(number) {
		if claim == nil {
			continue
		}
		for _, o := range claim.OwnerReferences {
			if o.Kind == "Pod" && o.APIVersion == "v1" && o.Name == podName(s.set, number) {
				s.again(time.Second)
				return true, nil
			}
		}
		if claim.DeletionTimestamp != nil {
			return true, fmt.Errorf("pvc %s is being deleted", claim.Name)
		}
	}
	return false, nil
}

// makeClaims creates the missing claims of an ordinal.
func (s *state) makeClaims(ctx context.Context, number int) error {
	there := s.claimsOf(number)
	for i := range s.set.Spec.VolumeClaimTemplates {
		t := &s.set.Spec.VolumeClaimTemplates[i]
		name := claimName(s.set, t, number)
		if there[name] != nil {
			continue
		}
		if err := s.makeClaim(ctx, t, name, number); err != nil {
			return err
		}
	}
	return nil
}

func (s *state) makeClaim(ctx context.Context, template *corev1.PersistentVolumeClaim, name string, number int) error {
	claim := template.DeepCopy()
	claim.Name, claim.Namespace = name, s.set.Namespace
	if claim.Labels == nil {
		claim.Labels = map[string]string{}
	}
	maps.Copy(claim.Labels, s.set.Spec.Selector.MatchLabels)
	claim.OwnerReferences = s.claimOwners(nil, slot{number: number})
	written, err := s.kube.CoreV1().PersistentVolumeClaims(claim.Namespace).Create(ctx, claim, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil
	case err != nil:
		s.recorder.Eventf(s.set, corev1.EventTypeWarning, "FailedCreate", "Create Claim %s for Pod %s in StatefulSet %s failed error: %s", name, podName(s.set, number), s.set.Name, err)
		return fmt.Errorf("create claim %s/%s: %w", claim.Namespace, name, err)
	}
	loop.Wrote(ctx, s.claims, written.ResourceVersion)
	s.recorder.Eventf(s.set, corev1.EventTypeNormal, "SuccessfulCreate", "Create Claim %s Pod %s in StatefulSet %s success", name, podName(s.set, number), s.set.Name)
	return nil
}

// keepClaims sets the owners of a pod's claims.
func (s *state) keepClaims(ctx context.Context, at slot) error {
	for _, claim := range s.claimsOf(at.number) {
		if claim == nil || claim.DeletionTimestamp != nil {
			continue
		}
		owners := s.claimOwners(claim.OwnerReferences, at)
		if slices.EqualFunc(owners, claim.OwnerReferences, sameOwner) {
			continue
		}
		changed := claim.DeepCopy()
		changed.OwnerReferences = owners
		written, err := s.kube.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, changed, metav1.UpdateOptions{})
		if err != nil {
			return fmt.Errorf("update the owners of claim %s: %w", informer.KeyOf(claim), err)
		}
		loop.Wrote(ctx, s.claims, written.ResourceVersion)
	}
	return nil
}

func sameOwner(a, b metav1.OwnerReference) bool {
	return a.UID == b.UID && ptr.Deref(a.Controller, false) == ptr.Deref(b.Controller, false)
}

// claimOwners returns the owners that a claim should have by the retention policy: the set, or the pod that scaling
// deletes. Other owners stay. A claim that somebody else controls is left alone.
func (s *state) claimOwners(now []metav1.OwnerReference, at slot) []metav1.OwnerReference {
	var pod types.UID
	if at.pod != nil {
		pod = at.pod.UID
	}
	out := slices.DeleteFunc(slices.Clone(now), func(o metav1.OwnerReference) bool { return o.UID == s.set.UID || pod != "" && o.UID == pod })
	policy := s.set.Spec.PersistentVolumeClaimRetentionPolicy
	if policy == nil || slices.ContainsFunc(out, func(o metav1.OwnerReference) bool { return ptr.Deref(o.Controller, false) }) {
		return out
	}
	leaving := !s.within(at.number)
	switch {
	case leaving && at.pod != nil && policy.WhenScaled == appsv1.DeletePersistentVolumeClaimRetentionPolicyType:
		out = append(out, *metav1.NewControllerRef(at.pod, corev1.SchemeGroupVersion.WithKind("Pod")))
	case policy.WhenDeleted == appsv1.DeletePersistentVolumeClaimRetentionPolicyType:
		out = append(out, *metav1.NewControllerRef(s.set, kind))
	}
	return out
}
