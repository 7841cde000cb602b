package autoscaling

import (
	"fmt"
	"strconv"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

var (
	specDoc   = autoscalingv2.HorizontalPodAutoscalerSpec{}.SwaggerDoc()
	statusDoc = autoscalingv2.HorizontalPodAutoscalerStatus{}.SwaggerDoc()
)

var autoscalerColumns = []table.Column{
	table.Name(),
	table.Text("Reference", specDoc["scaleTargetRef"]),
	table.Text("Targets", specDoc["metrics"]),
	table.Text("MinPods", specDoc["minReplicas"]),
	table.Text("MaxPods", specDoc["maxReplicas"]),
	table.Text("Replicas", statusDoc["currentReplicas"]),
	table.Age(),
}

func autoscalerRow(a *autoscalingv2.HorizontalPodAutoscaler) resource.Row {
	least := table.Unset
	if a.Spec.MinReplicas != nil {
		least = strconv.Itoa(int(*a.Spec.MinReplicas))
	}
	return resource.Row{Cells: []any{
		a.Name, a.Spec.ScaleTargetRef.Kind + "/" + a.Spec.ScaleTargetRef.Name, targets(a), least,
		int64(a.Spec.MaxReplicas), int64(a.Status.CurrentReplicas), table.Since(a.CreationTimestamp),
	}}
}

// maxTargets is how many targets a row shows.
const maxTargets = 2

func targets(a *autoscalingv2.HorizontalPodAutoscaler) string {
	if len(a.Spec.Metrics) == 0 {
		return table.None
	}
	var shown []string
	for i := range a.Spec.Metrics {
		if i == maxTargets {
			return fmt.Sprintf("%s + %d more...", strings.Join(shown, ", "), len(a.Spec.Metrics)-maxTargets)
		}
		var now autoscalingv2.MetricStatus
		if i < len(a.Status.CurrentMetrics) {
			now = a.Status.CurrentMetrics[i]
		}
		shown = append(shown, target(&a.Spec.Metrics[i], &now))
	}
	return strings.Join(shown, ", ")
}

func target(m *autoscalingv2.MetricSpec, now *autoscalingv2.MetricStatus) string {
	switch m.Type {
	case autoscalingv2.ExternalMetricSourceType:
		var current autoscalingv2.MetricValueStatus
		if now.External != nil {
			current = now.External.Current
		}
		return valueOrAverage(&m.External.Target, &current)
	case autoscalingv2.PodsMetricSourceType:
		var current autoscalingv2.MetricValueStatus
		if now.Pods != nil {
			current = now.Pods.Current
		}
		return quantity(current.AverageValue) + "/" + quantity(m.Pods.Target.AverageValue)
	case autoscalingv2.ObjectMetricSourceType:
		var current autoscalingv2.MetricValueStatus
		if now.Object != nil {
			current = now.Object.Current
		}
		return valueOrAverage(&m.Object.Target, &current)
	case autoscalingv2.ResourceMetricSourceType:
		var current autoscalingv2.MetricValueStatus
		if now.Resource != nil {
			current = now.Resource.Current
		}
		return utilization(m.Resource.Name, &m.Resource.Target, &current)
	case autoscalingv2.ContainerResourceMetricSourceType:
		var current autoscalingv2.MetricValueStatus
		if now.ContainerResource != nil {
			current = now.ContainerResource.Current
		}
		return utilization(m.ContainerResource.Name, &m.ContainerResource.Target, &current)
	}
	return "<unknown type>"
}

func valueOrAverage(t *autoscalingv2.MetricTarget, current *autoscalingv2.MetricValueStatus) string {
	if t.AverageValue != nil {
		return quantity(current.AverageValue) + "/" + t.AverageValue.String() + " (avg)"
	}
	return quantity(current.Value) + "/" + quantity(t.Value)
}

func utilization(name corev1.ResourceName, t *autoscalingv2.MetricTarget, current *autoscalingv2.MetricValueStatus) string {
	if t.AverageValue != nil {
		return fmt.Sprintf("%s: %s/%s", name, quantity(current.AverageValue), t.AverageValue)
	}
	wanted := "<auto>"
	if t.AverageUtilization != nil {
		wanted = strconv.Itoa(int(*t.AverageUtilization)) + "%"
	}
	have := table.Unknown
	if current.AverageUtilization != nil {
		have = strconv.Itoa(int(*current.AverageUtilization)) + "%"
	}
	return fmt.Sprintf("%s: %s/%s", name, have, wanted)
}

func quantity(q *apiresource.Quantity) string {
	if q == nil {
		return table.Unknown
	}
	return q.String()
}
