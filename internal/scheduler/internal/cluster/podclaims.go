package cluster

import corev1 "k8s.io/api/core/v1"

// PodClaim is a resource claim of a pod.
type PodClaim struct {
	Name    string // the claim's name; empty: none is needed, or it does not exist yet
	Own     bool   // it was made for the pod, from a template
	Pending bool   // it has not been made yet
}

func claimsOf(pod *corev1.Pod) []PodClaim {
	var claims []PodClaim
	for i := range pod.Spec.ResourceClaims {
		c := &pod.Spec.ResourceClaims[i]
		if c.ResourceClaimName != nil {
			claims = append(claims, PodClaim{Name: *c.ResourceClaimName})
			continue
		}
		claims = append(claims, madeClaim(pod, c.Name))
	}
	return claims
}

// madeClaim returns the claim that was made from a template.
func madeClaim(pod *corev1.Pod, name string) PodClaim {
	for i := range pod.Status.ResourceClaimStatuses {
		s := &pod.Status.ResourceClaimStatuses[i]
		if s.Name != name {
			continue
		}
		made := PodClaim{Own: true}
		if s.ResourceClaimName != nil {
			made.Name = *s.ResourceClaimName
		}
		return made
	}
	return PodClaim{Own: true, Pending: true}
}
