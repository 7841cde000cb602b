package demand

import corev1 "k8s.io/api/core/v1"

// Claim returns the name of the persistent volume claim behind a volume of a pod, or "" if there is none. An ephemeral
// volume's claim is named after the pod and the volume; one of that name may belong to somebody else.
func Claim(pod string, v *corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return EphemeralClaim(pod, v.Name)
	}
	return ""
}

// EphemeralClaim returns the name of the claim that is made for an ephemeral volume of a pod.
func EphemeralClaim(pod, volume string) string { return pod + "-" + volume }
