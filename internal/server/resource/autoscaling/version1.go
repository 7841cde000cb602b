package autoscaling

import (
	"encoding/json"
	"maps"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
)

// Annotations in which version 1 keeps what it has no field for.
const (
	metricsAnnotation        = "autoscaling.alpha.kubernetes.io/metrics"
	currentMetricsAnnotation = "autoscaling.alpha.kubernetes.io/current-metrics"
	conditionsAnnotation     = "autoscaling.alpha.kubernetes.io/conditions"
	behaviorAnnotation       = "autoscaling.alpha.kubernetes.io/behavior"
)

func toVersion1(a *autoscalingv2.HorizontalPodAutoscaler) *autoscalingv1.HorizontalPodAutoscaler {
	out := &autoscalingv1.HorizontalPodAutoscaler{
		ObjectMeta: *a.ObjectMeta.DeepCopy(),
		Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv1.CrossVersionObjectReference(a.Spec.ScaleTargetRef),
			MinReplicas:    clone(a.Spec.MinReplicas),
			MaxReplicas:    a.Spec.MaxReplicas,
		},
		Status: autoscalingv1.HorizontalPodAutoscalerStatus{
			ObservedGeneration: clone(a.Status.ObservedGeneration),
			LastScaleTime:      a.Status.LastScaleTime.DeepCopy(),
			CurrentReplicas:    a.Status.CurrentReplicas,
			DesiredReplicas:    a.Status.DesiredReplicas,
		},
	}
	out.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"))
	var others []autoscalingv1.MetricSpec
	for i := range a.Spec.Metrics {
		if m := &a.Spec.Metrics[i]; isCPUUtilization(m) {
			if out.Spec.TargetCPUUtilizationPercentage == nil {
				out.Spec.TargetCPUUtilizationPercentage = clone(m.Resource.Target.AverageUtilization)
			}
		} else {
			others = append(others, metricToVersion1(m))
		}
	}
	var current []autoscalingv1.MetricStatus
	for i := range a.Status.CurrentMetrics {
		m := &a.Status.CurrentMetrics[i]
		if m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil && m.Resource.Name == corev1.ResourceCPU {
			if u := m.Resource.Current.AverageUtilization; u != nil {
				out.Status.CurrentCPUUtilizationPercentage = clone(u)
			}
		}
		current = append(current, statusToVersion1(m))
	}
	annotations := map[string]any{}
	if len(others) > 0 {
		annotations[metricsAnnotation] = others
	}
	if len(current) > 0 {
		annotations[currentMetricsAnnotation] = current
	}
	if len(a.Status.Conditions) > 0 {
		annotations[conditionsAnnotation] = conditionsToVersion1(a.Status.Conditions)
	}
	if a.Spec.Behavior != nil {
		annotations[behaviorAnnotation] = behaviorInAnnotation(a.Spec.Behavior)
	}
	annotate(out, annotations)
	return out
}

func annotate(a *autoscalingv1.HorizontalPodAutoscaler, values map[string]any) {
	for key, value := range values {
		b, err := json.Marshal(value)
		if err != nil {
			continue // such a value has no text; version 2 still has it
		}
		if a.Annotations == nil {
			a.Annotations = map[string]string{}
		}
		a.Annotations[key] = string(b)
	}
}

func isCPUUtilization(m *autoscalingv2.MetricSpec) bool {
	return m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil && m.Resource.Name == corev1.ResourceCPU &&
		m.Resource.Target.AverageUtilization != nil
}

func fromVersion1(a *autoscalingv1.HorizontalPodAutoscaler) *autoscalingv2.HorizontalPodAutoscaler {
	out := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: *a.ObjectMeta.DeepCopy(),
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference(a.Spec.ScaleTargetRef),
			MinReplicas:    clone(a.Spec.MinReplicas),
			MaxReplicas:    a.Spec.MaxReplicas,
		},
		Status: autoscalingv2.HorizontalPodAutoscalerStatus{
			ObservedGeneration: clone(a.Status.ObservedGeneration),
			LastScaleTime:      a.Status.LastScaleTime.DeepCopy(),
			CurrentReplicas:    a.Status.CurrentReplicas,
			DesiredReplicas:    a.Status.DesiredReplicas,
		},
	}
	out.SetGroupVersionKind(autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"))
	for _, m := range annotated[[]autoscalingv1.MetricSpec](a, metricsAnnotation) {
		out.Spec.Metrics = append(out.Spec.Metrics, metricFromVersion1(&m))
	}
	if u := a.Spec.TargetCPUUtilizationPercentage; u != nil {
		out.Spec.Metrics = append(out.Spec.Metrics, cpuMetric(*u))
	}
	if b := annotated[*annotatedBehavior](a, behaviorAnnotation); b != nil {
		out.Spec.Behavior = b.behavior()
	}
	for _, m := range annotated[[]autoscalingv1.MetricStatus](a, currentMetricsAnnotation) {
		out.Status.CurrentMetrics = append(out.Status.CurrentMetrics, statusFromVersion1(&m))
	}
	if u := a.Status.CurrentCPUUtilizationPercentage; u != nil && len(out.Status.CurrentMetrics) == 0 {
		out.Status.CurrentMetrics = []autoscalingv2.MetricStatus{{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricStatus{
				Name: corev1.ResourceCPU, Current: autoscalingv2.MetricValueStatus{AverageUtilization: clone(u)},
			},
		}}
	}
	for _, c := range annotated[[]autoscalingv1.HorizontalPodAutoscalerCondition](a, conditionsAnnotation) {
		out.Status.Conditions = append(out.Status.Conditions, autoscalingv2.HorizontalPodAutoscalerCondition{
			Type: autoscalingv2.HorizontalPodAutoscalerConditionType(c.Type), Status: c.Status,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message, ObservedGeneration: c.ObservedGeneration,
		})
	}
	maps.DeleteFunc(out.Annotations, func(key, _ string) bool {
		return key == metricsAnnotation || key == currentMetricsAnnotation || key == conditionsAnnotation || key == behaviorAnnotation
	})
	if len(out.Annotations) == 0 {
		out.Annotations = nil
	}
	return out
}

// annotated decodes an annotation; an invalid one is ignored.
func annotated[T any](a *autoscalingv1.HorizontalPodAutoscaler, key string) T {
	var v, none T
	text, ok := a.Annotations[key]
	if !ok || json.Unmarshal([]byte(text), &v) != nil {
		return none
	}
	return v
}

func conditionsToVersion1(in []autoscalingv2.HorizontalPodAutoscalerCondition) []autoscalingv1.HorizontalPodAutoscalerCondition {
	var out []autoscalingv1.HorizontalPodAutoscalerCondition
	for _, c := range in {
		out = append(out, autoscalingv1.HorizontalPodAutoscalerCondition{
			Type: autoscalingv1.HorizontalPodAutoscalerConditionType(c.Type), Status: c.Status,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message, ObservedGeneration: c.ObservedGeneration,
		})
	}
	return out
}

func clone[T any](v *T) *T {
	if v == nil {
		return nil
	}
	return new(*v)
}
