package replicaset

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/controllers/podview"
)

// choose returns the n least useful pods, in the order of deletion. onNode counts pods of the same family by node, to
// delete from nodes with several.
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

// compareStage sorts pods first that are further from being ready.
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

// deletionCost returns the pod's deletion cost annotation. An invalid value counts as 0; the API rejects it anyway.
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

// compareAge sorts younger pods first, but only if the ages are in different powers of two. Otherwise always the pods
// of the newest node would be deleted.
func compareAge(a, b, now time.Time) int {
	return cmp.Compare(magnitude(a, now), magnitude(b, now))
}

func magnitude(since, now time.Time) int {
	if since.IsZero() {
		return -2 // not known: deleted first
	}
	age := now.Sub(since)
	if age <= 0 {
		return -1
	}
	return int(math.Log2(float64(age)))
}

// compareAges reports the age of each chosen pod that is ready, as a multiple of the age of the youngest one of all.
func compareAges(chosen, all []*podview.Pod, now time.Time, report func(ratio float64)) {
	var youngest time.Time
	for _, pod := range all {
		if pod.Ready && pod.ReadyChanged.After(youngest) {
			youngest = pod.ReadyChanged.Time
		}
	}
	least := now.Sub(youngest)
	if youngest.IsZero() || least <= 0 {
		return // none is ready, or one is since this moment: there is no ratio
	}
	for _, pod := range chosen {
		if pod.Ready && !pod.ReadyChanged.IsZero() {
			report(float64(now.Sub(pod.ReadyChanged.Time)) / float64(least))
		}
	}
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
