package autoscaling

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
)

// annotatedBehavior is a behavior in version 1's annotation: it has the names of Go fields, and is decoded without
// regard to case.
type annotatedBehavior struct{ ScaleUp, ScaleDown *annotatedRules }

type annotatedRules struct {
	StabilizationWindowSeconds *int32
	SelectPolicy               *autoscalingv2.ScalingPolicySelect
	Policies                   []annotatedPolicy
	Tolerance                  *resource.Quantity
}

type annotatedPolicy struct {
	Type          autoscalingv2.HPAScalingPolicyType
	Value         int32
	PeriodSeconds int32
}

func behaviorInAnnotation(b *autoscalingv2.HorizontalPodAutoscalerBehavior) annotatedBehavior {
	return annotatedBehavior{ScaleUp: rulesInAnnotation(b.ScaleUp), ScaleDown: rulesInAnnotation(b.ScaleDown)}
}

func rulesInAnnotation(r *autoscalingv2.HPAScalingRules) *annotatedRules {
	if r == nil {
		return nil
	}
	out := &annotatedRules{StabilizationWindowSeconds: r.StabilizationWindowSeconds, SelectPolicy: r.SelectPolicy, Tolerance: r.Tolerance}
	for _, p := range r.Policies {
		out.Policies = append(out.Policies, annotatedPolicy(p))
	}
	return out
}

func (b *annotatedBehavior) behavior() *autoscalingv2.HorizontalPodAutoscalerBehavior {
	return &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: b.ScaleUp.rules(), ScaleDown: b.ScaleDown.rules()}
}

func (r *annotatedRules) rules() *autoscalingv2.HPAScalingRules {
	if r == nil {
		return nil
	}
	out := &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: r.StabilizationWindowSeconds, SelectPolicy: r.SelectPolicy, Tolerance: r.Tolerance}
	for _, p := range r.Policies {
		out.Policies = append(out.Policies, autoscalingv2.HPAScalingPolicy(p))
	}
	return out
}
