package replicaset

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/controllers/podview"
)

// choose returns the n pods that are the least loss, in the order in which
// they should go. The count of pods of the same family on each node says where
// replicas are doubled up.
func choose(pods []*podview.Pod, n int, onNode map[string]int, now time.Time) []*podview.Pod {
	if n >= len(pods) {
		return pods
	}
	ranked := slices.Clone(pods)
	slices.SortStableFunc(ranked, func(a, b *podview.Pod) int {
		return cmp.Or(
			compareStage(a, b),
			cmp.Compare(deletionCost(a), deletionCost(b)),
			cmp.Compare(onNode[b.Node], onNode[a.Node]),
			compareReadySince(a, b, now),
			cmp.Compare(b.MostRestarts, a.MostRestarts),
			compareAge(a.CreationTimestamp.Time, b.CreationTimestamp.Time, now),
			cmp.Compare(a.UID, b.UID),
		)
	})
	return ranked[:n]
}

// compareStage puts first what has come less far on the way to being ready.
func compareStage(a, b *podview.Pod) int {
	return cmp.Or(
		cmp.Compare(min(len(a.Node), 1), min(len(b.Node), 1)),
		cmp.Compare(phaseRank(a.Phase), phaseRank(b.Phase)),
		compareBool(a.Ready, b.Ready),
	)
}

func phaseRank(phase corev1.PodPhase) int {
	switch phase {
	case corev1.PodRunning:
		return 2
	case corev1.PodUnknown:
		return 1
	}
	return 0
}

// deletionCost is the pod's own word on how dear it is. What cannot be read
// counts as nothing, as the API refuses it anyway.
func deletionCost(p *podview.Pod) int32 {
	cost, _ := strconv.ParseInt(p.Annotations[corev1.PodDeletionCost], 10, 32)
	return int32(cost)
}

func compareReadySince(a, b *podview.Pod, now time.Time) int {
	if !a.Ready || !b.Ready {
		return 0
	}
	return compareAge(a.ReadyChanged.Time, b.ReadyChanged.Time, now)
}

// compareAge puts the younger first, but only when one is much younger: ages
// within one power of two are alike, so that what goes is spread over all moments
// of birth and not always the youngest node's pods.
func compareAge(a, b, now time.Time) int {
	return cmp.Compare(magnitude(a, now), magnitude(b, now))
}

func magnitude(since, now time.Time) int {
	if since.IsZero() {
		return -2 // unknown: goes first
	}
	age := now.Sub(since)
	if age <= 0 {
		return -1
	}
	return int(math.Log2(float64(age)))
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
