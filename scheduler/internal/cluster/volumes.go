package cluster

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/ephemeral"
)

// Volume is a volume of a pod that restricts where the pod can go.
type Volume struct {
	Claim     string // the name of its claim; empty: it has none
	Ephemeral bool   // the claim is made for the pod, and goes with it
	// Disk is set for volumes of drivers that have no claim, and that not all pods of a node may use at once.
	Disk *corev1.VolumeSource
}

func volumesOf(pod *corev1.Pod) []Volume {
	var volumes []Volume
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		switch {
		case v.PersistentVolumeClaim != nil:
			volumes = append(volumes, Volume{Claim: v.PersistentVolumeClaim.ClaimName})
		case v.Ephemeral != nil:
			volumes = append(volumes, Volume{Claim: ephemeral.VolumeClaimName(pod, v), Ephemeral: true})
		case v.GCEPersistentDisk != nil, v.AWSElasticBlockStore != nil, v.RBD != nil, v.ISCSI != nil:
			volumes = append(volumes, Volume{Disk: v.VolumeSource.DeepCopy()})
		}
	}
	return volumes
}

// ClaimUsers is how many placed pods use a claim.
func (s *State) ClaimUsers(claim Key) int { return s.claimUsers[claim] }

// countClaims counts the claims that a pod shares with others. Ephemeral ones belong to one pod.
func (s *State) countClaims(pod *Pod, by int) {
	for i := range pod.Volumes {
		v := &pod.Volumes[i]
		if v.Claim == "" || v.Ephemeral {
			continue
		}
		if s.claimUsers == nil {
			s.claimUsers = make(map[Key]int)
		}
		key := Key{Namespace: pod.Key.Namespace, Name: v.Claim}
		if s.claimUsers[key] += by; s.claimUsers[key] == 0 {
			delete(s.claimUsers, key)
		}
	}
}
