package deployment

import (
	"cmp"
	"math"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// limit is how far a rollout may go above and below the declared number.
type limit struct{ surge, unavailable int }

// bounds resolves maxSurge (rounded up) and maxUnavailable (rounded down). If both are zero one pod may be unavailable,
// because otherwise no rollout could begin.
func bounds(d *appsv1.Deployment) limit {
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return limit{}
	}
	var surge, unavailable *intstr.IntOrString
	if rolling := d.Spec.Strategy.RollingUpdate; rolling != nil {
		surge, unavailable = rolling.MaxSurge, rolling.MaxUnavailable
	}
	l := limit{surge: scaled(surge, d, true), unavailable: scaled(unavailable, d, false)}
	if l.surge == 0 && l.unavailable == 0 {
		l.unavailable = 1
	}
	l.unavailable = min(l.unavailable, replicas(d))
	return l
}

func scaled(value *intstr.IntOrString, d *appsv1.Deployment, up bool) int {
	if value == nil {
		return 0
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(value, replicas(d), up)
	if err != nil {
		return 0 // validation rejects such values
	}
	return min(n, math.MaxInt32-replicas(d)) // so that the sum with the replicas has 32 bits, as in the annotations of ReplicaSets
}

// Sizes are computed as int: the sum of two that users may declare needs more than 32 bits.

// replicas returns the declared number of pods.
func replicas(d *appsv1.Deployment) int {
	if d.Spec.Replicas == nil {
		return 1
	}
	return int(*d.Spec.Replicas)
}

// number is a size or a sum of sizes in an object.
func number(n int) int32 { return int32(max(0, min(n, math.MaxInt32))) }

// size returns the requested number of pods of a ReplicaSet.
func size(set *appsv1.ReplicaSet) int {
	if set == nil || set.Spec.Replicas == nil {
		return 0
	}
	return int(*set.Spec.Replicas)
}

func sum(sets []*appsv1.ReplicaSet, count func(*appsv1.ReplicaSet) int) int {
	n := 0
	for _, set := range sets {
		if set != nil {
			n += count(set)
		}
	}
	return n
}

func existing(set *appsv1.ReplicaSet) int  { return int(set.Status.Replicas) }
func ready(set *appsv1.ReplicaSet) int     { return int(set.Status.ReadyReplicas) }
func available(set *appsv1.ReplicaSet) int { return int(set.Status.AvailableReplicas) }

// held returns how many pods a ReplicaSet has or will have: pods beyond its size may still exist.
func held(set *appsv1.ReplicaSet) int { return max(existing(set), size(set)) }

// unobserved reports whether a ReplicaSet's size has changed since its controller has last counted its pods. If it was
// reduced, the controller may have created pods for the size before that are not counted yet.
func unobserved(set *appsv1.ReplicaSet) bool {
	return set.Generation > 1 && set.Status.ObservedGeneration < set.Generation
}

// lasting returns how many available pods a ReplicaSet will keep: its status may still count pods beyond its size.
func lasting(set *appsv1.ReplicaSet) int { return min(available(set), size(set)) }

// byAge sorts the oldest first.
func byAge(a, b *appsv1.ReplicaSet) int {
	return cmp.Or(a.CreationTimestamp.Time.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// roundHalfUp returns at most the largest size: a mark that somebody has changed may ask for any.
func roundHalfUp(x float64) int { return int(min(math.Floor(x+0.5), math.MaxInt32)) }
