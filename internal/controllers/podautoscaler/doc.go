// Package podautoscaler scales workloads by metrics of their pods or of other objects.
//
// Guarantees: each HorizontalPodAutoscaler (autoscaling/v2) is evaluated every sync period, or later after an error. Of
// several metrics the highest proposal counts. Failing metrics never shrink a workload. Limits, behaviours,
// stabilization, tolerance, conditions, events and messages are Kubernetes'. A workload of any kind is scaled through
// its scale subresource.
//
// Earlier recommendations are lost when this process restarts. Metrics come from the APIs metrics.k8s.io,
// custom.metrics.k8s.io and external.metrics.k8s.io.
package podautoscaler
