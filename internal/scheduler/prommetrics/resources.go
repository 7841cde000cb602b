package prommetrics

import (
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/demand"
)

// resources tells what pods request and to what they are limited.
type resources struct {
	pods *informer.Shared[*corev1.Pod]
}

var (
	perResource = []string{"namespace", "pod", "node", "scheduler", "priority", "resource", "unit"}
	requested   = prometheus.NewDesc("kube_pod_resource_request", "What a pod that has not ended requests of a resource, in the unit.", perResource, nil)
	limited     = prometheus.NewDesc("kube_pod_resource_limit", "To what a pod that has not ended is limited of a resource, in the unit.", perResource, nil)
)

// Resources returns what kube-scheduler serves at /metrics/resources: the requests and limits of all pods that have not
// ended. They are computed when somebody asks.
func Resources(pods *informer.Shared[*corev1.Pod]) prometheus.Gatherer {
	r := prometheus.NewRegistry()
	r.MustRegister(&resources{pods})
	return r
}

// Describe implements prometheus.Collector.
func (r *resources) Describe(to chan<- *prometheus.Desc) {
	to <- requested
	to <- limited
}

// Collect implements prometheus.Collector.
func (r *resources) Collect(to chan<- prometheus.Metric) {
	for pod := range r.pods.List() {
		if demand.Finished(pod.Status.Phase) {
			continue
		}
		tell(to, requested, pod, demand.RequestList(pod))
		tell(to, limited, pod, demand.LimitList(pod))
	}
}

func tell(to chan<- prometheus.Metric, d *prometheus.Desc, pod *corev1.Pod, amounts corev1.ResourceList) {
	priority := ""
	if pod.Spec.Priority != nil {
		priority = strconv.Itoa(int(*pod.Spec.Priority))
	}
	for name, amount := range amounts {
		if amount.IsZero() {
			continue
		}
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, amount.AsApproximateFloat64(),
			pod.Namespace, pod.Name, pod.Spec.NodeName, pod.Spec.SchedulerName, priority, string(name), unit(name))
	}
}

// unit returns kube-scheduler's name for the unit of a resource.
func unit(name corev1.ResourceName) string {
	switch {
	case name == corev1.ResourceCPU:
		return "cores"
	case name == corev1.ResourceMemory, name == corev1.ResourceStorage, name == corev1.ResourceEphemeralStorage,
		strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
		return "bytes"
	}
	return "integer"
}
