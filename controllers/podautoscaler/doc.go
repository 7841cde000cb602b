// Package podautoscaler sets how many replicas a workload has, by figures of its pods or of something else.
//
// What is guaranteed: each HorizontalPodAutoscaler (autoscaling/v2) is looked at every sync period, or later after an error; of several
// metrics the one that asks for most decides; metrics that fail never make a workload smaller. Limits, behaviours, stabilization, tolerance, conditions,
// events and messages are Kubernetes'. The workload is reached through its scale subresource, whatever its kind.
//
// What may not be assumed: that what was recommended before this process started is remembered. Figures come from the APIs
// metrics.k8s.io, custom.metrics.k8s.io and external.metrics.k8s.io, whoever serves them.
package podautoscaler
