package podautoscaler

import (
	"math"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
)

const (
	// Without behaviours a workload may double, or have four, in one step.
	upFactor = 2
	upLeast  = 4
)

// verdict is a number of replicas, and what it was limited by.
type verdict struct {
	replicas        int32
	reason, message string
}

var (
	inRange     = verdict{reason: "DesiredWithinRange", message: "the desired count is within the acceptable range"}
	tooFast     = verdict{reason: "ScaleUpLimit", message: "the desired replica count is increasing faster than the maximum scale rate"}
	tooMany     = verdict{reason: "TooManyReplicas", message: "the desired replica count is more than the maximum replica count"}
	tooFastDown = verdict{reason: "ScaleDownLimit", message: "the desired replica count is decreasing faster than the maximum scale rate"}
	tooFew      = verdict{reason: "TooFewReplicas", message: "the desired replica count is less than the minimum replica count"}
	upHeld      = verdict{reason: "ScaleUpStabilized", message: "recent recommendations were lower than current one, applying the lowest recent recommendation"}
	downHeld    = verdict{reason: "ScaleDownStabilized", message: "recent recommendations were higher than current one, applying the highest recent recommendation"}
)

func (v verdict) of(replicas int32) verdict { v.replicas = replicas; return v }

// limit makes of a proposal what may be done now.
func (l *look) limit(now, proposed int32) int32 {
	b := l.hpa.Spec.Behavior
	var stable, final verdict
	if b == nil {
		stable = l.stabilize(proposed)
		final = limitPlain(now, stable.replicas, l.least(), l.hpa.Spec.MaxReplicas)
	} else {
		stable = l.stabilizeBy(b, now, proposed)
		final = l.limitBy(b, now, stable.replicas)
	}
	if stable.replicas == proposed {
		stable.reason, stable.message = "ReadyForNewScale", "recommended size matches current size"
	}
	l.condition(autoscalingv2.AbleToScale, corev1.ConditionTrue, stable.reason, stable.message)
	limited := corev1.ConditionTrue
	if final.replicas == stable.replicas {
		limited = corev1.ConditionFalse
	}
	l.condition(autoscalingv2.ScalingLimited, limited, final.reason, final.message)
	return final.replicas
}

// stabilize is the highest recommendation of late.
func (l *look) stabilize(proposed int32) verdict {
	since, highest := l.now.Add(-l.DownscaleStabilization), proposed
	for _, s := range l.recommendations {
		if !s.at.Before(since) {
			highest = max(highest, s.replicas)
		}
	}
	l.recommend(proposed, since)
	return downHeld.of(highest)
}

// recommend remembers a recommendation, and forgets those that do not count any more.
func (l *look) recommend(replicas int32, since time.Time) {
	l.recommendations = append(recent(l.recommendations, since), sample{replicas, l.now})
}

// recent are the samples that are not older than that.
func recent(all []sample, since time.Time) []sample {
	kept := make([]sample, 0, len(all)+1)
	for _, s := range all {
		if !s.at.Before(since) {
			kept = append(kept, s)
		}
	}
	return kept
}

// stabilizeBy goes up no further than the lowest recommendation of one window, and down no further than the highest of the other.
func (l *look) stabilizeBy(b *autoscalingv2.HorizontalPodAutoscalerBehavior, now, proposed int32) verdict {
	sinceUp, sinceDown := l.now.Add(-window(b.ScaleUp, 0)), l.now.Add(-window(b.ScaleDown, l.DownscaleStabilization))
	up, down := proposed, proposed
	for _, s := range l.recommendations {
		if s.at.After(sinceUp) {
			up = min(up, s.replicas)
		}
		if s.at.After(sinceDown) {
			down = max(down, s.replicas)
		}
	}
	oldest := sinceUp
	if sinceDown.Before(oldest) {
		oldest = sinceDown
	}
	l.recommend(proposed, oldest)
	held := downHeld
	if proposed >= now {
		held = upHeld
	}
	return held.of(min(max(now, up), down))
}

func window(rules *autoscalingv2.HPAScalingRules, standard time.Duration) time.Duration {
	if rules == nil || rules.StabilizationWindowSeconds == nil {
		return standard
	}
	return time.Duration(*rules.StabilizationWindowSeconds) * time.Second
}

func limitPlain(now, proposed, least, most int32) verdict {
	upper, limit := most, tooMany
	if fastest := max(upFactor*now, upLeast); most > fastest {
		upper, limit = fastest, tooFast
	}
	switch {
	case proposed < least:
		return tooFew.of(least)
	case proposed > upper:
		return limit.of(upper)
	}
	return inRange.of(proposed)
}

func (l *look) limitBy(b *autoscalingv2.HorizontalPodAutoscalerBehavior, now, proposed int32) verdict {
	switch {
	case proposed > now:
		upper, limit := l.hpa.Spec.MaxReplicas, tooMany
		if fastest := max(l.fastest(b.ScaleUp, now, true), now); upper > fastest {
			upper, limit = fastest, tooFast
		}
		if proposed > upper {
			return limit.of(upper)
		}
	case proposed < now:
		lower, limit := l.least(), tooFew
		if fastest := min(l.fastest(b.ScaleDown, now, false), now); lower < fastest {
			lower, limit = fastest, tooFastDown
		}
		if proposed < lower {
			return limit.of(lower)
		}
	}
	return inRange.of(proposed)
}

// fastest is how far the policies let a workload go from what it was when their periods began.
func (l *look) fastest(rules *autoscalingv2.HPAScalingRules, now int32, up bool) int32 {
	if rules == nil {
		return now
	}
	choice := autoscalingv2.MaxChangePolicySelect
	if rules.SelectPolicy != nil {
		choice = *rules.SelectPolicy
	}
	if choice == autoscalingv2.DisabledPolicySelect || len(rules.Policies) == 0 {
		return now
	}
	largest := up == (choice != autoscalingv2.MinChangePolicySelect) // the largest number is the largest change up, and the smallest one down
	var result int32
	for i, p := range rules.Policies {
		since := l.now.Add(-time.Duration(p.PeriodSeconds) * time.Second)
		began := now - sum(l.ups, since) + sum(l.downs, since)
		reach := reach(p, began, up)
		if i == 0 || largest && reach > result || !largest && reach < result {
			result = reach
		}
	}
	return result
}

func reach(p autoscalingv2.HPAScalingPolicy, began int32, up bool) int32 {
	part := float64(p.Value) / 100
	switch {
	case p.Type == autoscalingv2.PercentScalingPolicy && up:
		return int32(math.Ceil(float64(began) * (1 + part)))
	case p.Type == autoscalingv2.PercentScalingPolicy:
		return int32(float64(began) * (1 - part))
	case up:
		return began + p.Value
	}
	return began - p.Value
}

func sum(all []sample, since time.Time) int32 {
	var total int32
	for _, s := range all {
		if s.at.After(since) {
			total += s.replicas
		}
	}
	return total
}

// scaled remembers a change, for the policies.
func (l *look) scaled(from, to int32) {
	b := l.hpa.Spec.Behavior
	switch {
	case b == nil:
	case to > from:
		l.ups = append(recent(l.ups, l.now.Add(-longest(b.ScaleUp, b.ScaleDown))), sample{to - from, l.now})
	default:
		l.downs = append(recent(l.downs, l.now.Add(-longest(b.ScaleUp, b.ScaleDown))), sample{from - to, l.now})
	}
}

// longest is the longest period of all policies.
func longest(both ...*autoscalingv2.HPAScalingRules) time.Duration {
	var most int32
	for _, rules := range both {
		if rules == nil {
			continue
		}
		for _, p := range rules.Policies {
			most = max(most, p.PeriodSeconds)
		}
	}
	return time.Duration(most) * time.Second
}
