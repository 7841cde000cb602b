package cluster

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/ephemeral"
)

// Volume is a volume that restricts where its pod can be placed.
type Volume struct {
	Claim     string // the name of its claim, or empty
	Ephemeral bool   // the claim is made for the pod and deleted with it
	// Disk is set for volumes without a claim that several pods of a node may not all use at once.
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

// ClaimUsers returns the number of placed pods that use a claim.
func (s *State) ClaimUsers(claim Key) int { return s.claimUsers[claim] }

// countClaims counts the claims that pods can share. Ephemeral ones belong to one pod.
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
