package deployment

import (
	"math"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The annotations that Deployments, ReplicaSets and kubectl use.
const (
	revisionKey = "deployment.kubernetes.io/revision"
	historyKey  = "deployment.kubernetes.io/revision-history"
	desiredKey  = "deployment.kubernetes.io/desired-replicas"
	maximumKey  = "deployment.kubernetes.io/max-replicas"
	rollbackKey = appsv1.DeprecatedRollbackTo
)

// historyBound limits the length in bytes of a ReplicaSet's list of earlier revisions.
const historyBound = 2000

// notCopied are annotations that only concern one object.
var notCopied = []string{
	corev1.LastAppliedConfigAnnotation,
	revisionKey, historyKey, desiredKey, maximumKey, rollbackKey,
}

// revisionOf returns the object's revision, or 0.
func revisionOf(obj metav1.Object) int64 {
	n, _ := strconv.ParseInt(obj.GetAnnotations()[revisionKey], 10, 64)
	return n
}

func latestRevision(sets []*appsv1.ReplicaSet) int64 {
	var latest int64
	for _, set := range sets {
		latest = max(latest, revisionOf(set))
	}
	return latest
}

// previousRevision returns the revision before the latest, or 0.
func previousRevision(sets []*appsv1.ReplicaSet) int64 {
	var latest, previous int64
	for _, set := range sets {
		switch n := revisionOf(set); {
		case n > latest:
			latest, previous = n, latest
		case n > previous:
			previous = n
		}
	}
	return previous
}

// copyAnnotations copies the Deployment's annotations to a ReplicaSet, and reports whether anything has changed.
func copyAnnotations(d *appsv1.Deployment, set *appsv1.ReplicaSet) bool {
	changed := false
	for key, value := range d.Annotations {
		if slices.Contains(notCopied, key) {
			continue
		}
		if old, ok := set.Annotations[key]; ok && old == value {
			continue
		}
		metav1.SetMetaDataAnnotation(&set.ObjectMeta, key, value)
		changed = true
	}
	return changed
}

// promote gives a ReplicaSet the newest revision, and adds its earlier one to its history. It reports whether anything
// has changed.
func promote(set *appsv1.ReplicaSet, revision int64) bool {
	old := set.Annotations[revisionKey]
	if revisionOf(set) >= revision {
		return false
	}
	metav1.SetMetaDataAnnotation(&set.ObjectMeta, revisionKey, strconv.FormatInt(revision, 10))
	if old == "" {
		return true
	}
	var history []string
	if h := set.Annotations[historyKey]; h != "" {
		history = strings.Split(h, ",")
	}
	history = append(history, old)
	for len(history) > 1 && len(strings.Join(history, ",")) > historyBound {
		history = history[1:]
	}
	metav1.SetMetaDataAnnotation(&set.ObjectMeta, historyKey, strings.Join(history, ","))
	return true
}

// markSize stores on a ReplicaSet the size of the Deployment for which its own size was computed. It reports whether
// anything has changed.
func markSize(set *appsv1.ReplicaSet, d *appsv1.Deployment) bool {
	desired, maximum := strconv.Itoa(replicas(d)), strconv.Itoa(replicas(d)+bounds(d).surge)
	if set.Annotations[desiredKey] == desired && set.Annotations[maximumKey] == maximum {
		return false
	}
	metav1.SetMetaDataAnnotation(&set.ObjectMeta, desiredKey, desired)
	metav1.SetMetaDataAnnotation(&set.ObjectMeta, maximumKey, maximum)
	return true
}

func mark(set *appsv1.ReplicaSet, key string) (int, bool) {
	n, err := strconv.ParseInt(set.Annotations[key], 10, 32)
	return int(n), err == nil
}

// expired returns the old ReplicaSets beyond the history limit, oldest revisions first. A ReplicaSet that has pods, or
// may still get some, is kept.
func expired(d *appsv1.Deployment, old []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	limit := d.Spec.RevisionHistoryLimit
	if limit == nil || *limit == math.MaxInt32 {
		return nil
	}
	alive := slices.DeleteFunc(slices.Clone(old), func(set *appsv1.ReplicaSet) bool { return set.DeletionTimestamp != nil })
	surplus := len(alive) - int(*limit)
	if surplus <= 0 {
		return nil
	}
	slices.SortStableFunc(alive, func(a, b *appsv1.ReplicaSet) int {
		if a, b := revisionOf(a), revisionOf(b); a != b {
			return int(max(-1, min(1, a-b)))
		}
		return byAge(a, b)
	})
	return slices.DeleteFunc(alive[:surplus], func(set *appsv1.ReplicaSet) bool {
		return set.Status.Replicas != 0 || size(set) != 0 || set.Generation > set.Status.ObservedGeneration
	})
}
