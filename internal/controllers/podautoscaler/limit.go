package podautoscaler

import (
	"math"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
)

const (
	// Without behaviours a workload may grow to twice its size, or to four pods, in one step.
	upFactor = 2
	upLeast  = 4
)

// verdict is a number of replicas, and what has limited it.
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

// limit applies the limits to a proposal.
func (e *evaluation) limit(now, proposed int32) int32 {
	b := e.hpa.Spec.Behavior
	var stable, final verdict
	if b == nil {
		stable = e.stabilize(proposed)
		final = limitPlain(now, stable.replicas, e.least(), e.hpa.Spec.MaxReplicas)
	} else {
		stable = e.stabilizeBy(b, now, proposed)
		final = e.limitBy(b, now, stable.replicas)
	}
	if stable.replicas == proposed {
		stable.reason, stable.message = "ReadyForNewScale", "recommended size matches current size"
	}
	e.condition(autoscalingv2.AbleToScale, corev1.ConditionTrue, stable.reason, stable.message)
	limited := corev1.ConditionTrue
	if final.replicas == stable.replicas {
		limited = corev1.ConditionFalse
	}
	e.condition(autoscalingv2.ScalingLimited, limited, final.reason, final.message)
	return final.replicas
}

// stabilize returns the highest recent recommendation.
func (e *evaluation) stabilize(proposed int32) verdict {
	since, highest := e.now.Add(-e.DownscaleStabilization), proposed
	for _, s := range e.recommendations {
		if !s.at.Before(since) {
			highest = max(highest, s.replicas)
		}
	}
	e.recommend(proposed, since)
	return downHeld.of(highest)
}

// recommend adds a recommendation, and drops old ones.
func (e *evaluation) recommend(replicas int32, since time.Time) {
	e.recommendations = append(recent(e.recommendations, since), sample{replicas, e.now})
}

// recent drops samples before since.
func recent(all []sample, since time.Time) []sample {
	kept := make([]sample, 0, len(all)+1)
	for _, s := range all {
		if !s.at.Before(since) {
			kept = append(kept, s)
		}
	}
	return kept
}

// stabilizeBy limits growth to the lowest recommendation of the scale-up window, and shrinking to the highest of the
// scale-down window.
func (e *evaluation) stabilizeBy(b *autoscalingv2.HorizontalPodAutoscalerBehavior, now, proposed int32) verdict {
	sinceUp, sinceDown := e.now.Add(-window(b.ScaleUp, 0)), e.now.Add(-window(b.ScaleDown, e.DownscaleStabilization))
	up, down := proposed, proposed
	for _, s := range e.recommendations {
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
	e.recommend(proposed, oldest)
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
	if fastest := max(clamp(float64(upFactor)*float64(now)), upLeast); most > fastest {
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

func (e *evaluation) limitBy(b *autoscalingv2.HorizontalPodAutoscalerBehavior, now, proposed int32) verdict {
	switch {
	case proposed > now:
		upper, limit := e.hpa.Spec.MaxReplicas, tooMany
		if fastest := max(e.fastest(b.ScaleUp, now, true), now); upper > fastest {
			upper, limit = fastest, tooFast
		}
		if proposed > upper {
			return limit.of(upper)
		}
	case proposed < now:
		lower, limit := e.least(), tooFew
		if fastest := min(e.fastest(b.ScaleDown, now, false), now); lower < fastest {
			lower, limit = fastest, tooFastDown
		}
		if proposed < lower {
			return limit.of(lower)
		}
	}
	return inRange.of(proposed)
}

// fastest returns the largest change that the policies allow, relative to the sizes at the start of their periods.
func (e *evaluation) fastest(rules *autoscalingv2.HPAScalingRules, now int32, up bool) int32 {
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
	largest := up == (choice != autoscalingv2.MinChangePolicySelect) // scaling up, the largest number is the largest change; scaling down, the smallest
	var result int32
	for i, p := range rules.Policies {
		since := e.now.Add(-time.Duration(p.PeriodSeconds) * time.Second)
		began := int64(now) - sum(e.ups, since) + sum(e.downs, since)
		reach := reach(p, began, up)
		if i == 0 || largest && reach > result || !largest && reach < result {
			result = reach
		}
	}
	return result
}

func reach(p autoscalingv2.HPAScalingPolicy, began int64, up bool) int32 {
	from, value := float64(began), float64(p.Value)
	switch {
	case p.Type == autoscalingv2.PercentScalingPolicy && up:
		return clamp(math.Ceil(from * (1 + value/100)))
	case p.Type == autoscalingv2.PercentScalingPolicy:
		return clamp(from * (1 - value/100))
	case up:
		return clamp(from + value)
	}
	return clamp(from - value)
}

func sum(all []sample, since time.Time) int64 {
	var total int64
	for _, s := range all {
		if s.at.After(since) {
			total += int64(s.replicas)
		}
	}
	return total
}

// scaled stores a change, for the policies.
func (e *evaluation) scaled(from, to int32) {
	b := e.hpa.Spec.Behavior
	switch {
	case b == nil:
	case to > from:
		e.ups = append(recent(e.ups, e.now.Add(-longest(b.ScaleUp, b.ScaleDown))), sample{to - from, e.now})
	default:
		e.downs = append(recent(e.downs, e.now.Add(-longest(b.ScaleUp, b.ScaleDown))), sample{from - to, e.now})
	}
}

// longest returns the longest period of all policies.
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
