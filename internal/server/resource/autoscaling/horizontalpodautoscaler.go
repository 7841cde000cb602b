package autoscaling

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/server/resource"
)

// HorizontalPodAutoscalers set the number of replicas from metrics.
func HorizontalPodAutoscalers() *resource.Kind {
	return resource.Define(resource.Description[*autoscalingv2.HorizontalPodAutoscaler]{
		Group: autoscalingv2.GroupName, Version: "v2", Kind: "HorizontalPodAutoscaler", Resource: "horizontalpodautoscalers",
		Namespaced: true, ShortNames: []string{"hpa"}, Categories: []string{"all"},
		NoGeneration: true, UnconditionalUpdate: true,
		Default: defaultAutoscaler,
		Rules:   autoscalerRules,
		Status:  &autoscalerStatusRules,
		Columns: autoscalerColumns,
		Row:     autoscalerRow,
		Also: []resource.Serving[*autoscalingv2.HorizontalPodAutoscaler]{{
			Group: autoscalingv1.GroupName, Version: "v1", Kind: "HorizontalPodAutoscaler",
			New:  func() runtime.Object { return &autoscalingv1.HorizontalPodAutoscaler{} },
			From: func(a *autoscalingv2.HorizontalPodAutoscaler) runtime.Object { return toVersion1(a) },
			To: func(o runtime.Object) *autoscalingv2.HorizontalPodAutoscaler {
				return fromVersion1(o.(*autoscalingv1.HorizontalPodAutoscaler))
			},
		}},
	})
}

// The target of an autoscaler without metrics.
const defaultUtilization = 80

func defaultAutoscaler(a *autoscalingv2.HorizontalPodAutoscaler) {
	if a.Spec.MinReplicas == nil {
		a.Spec.MinReplicas = new(int32(1))
	}
	if len(a.Spec.Metrics) == 0 {
		a.Spec.Metrics = []autoscalingv2.MetricSpec{cpuMetric(defaultUtilization)}
	}
	if b := a.Spec.Behavior; b != nil {
		b.ScaleUp = scalingRules(b.ScaleUp, new(int32), []autoscalingv2.HPAScalingPolicy{
			{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 15},
			{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15},
		})
		b.ScaleDown = scalingRules(b.ScaleDown, nil, []autoscalingv2.HPAScalingPolicy{
			{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15},
		})
	}
}

func cpuMetric(utilization int32) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{
		Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricSource{
			Name:   corev1.ResourceCPU,
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &utilization},
		},
	}
}

func scalingRules(r *autoscalingv2.HPAScalingRules, window *int32, policies []autoscalingv2.HPAScalingPolicy) *autoscalingv2.HPAScalingRules {
	if r == nil {
		r = &autoscalingv2.HPAScalingRules{}
	}
	if r.StabilizationWindowSeconds == nil {
		r.StabilizationWindowSeconds = window
	}
	if r.SelectPolicy == nil {
		r.SelectPolicy = new(autoscalingv2.MaxChangePolicySelect)
	}
	if r.Policies == nil {
		r.Policies = policies
	}
	return r
}
