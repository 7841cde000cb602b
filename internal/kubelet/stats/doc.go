// Package stats reports the resource usage of a node and its pods: as the kubelet's summary, and as metrics in the
// Prometheus text format under the kubelet's names, for metrics-server and other clients of kubelets.
//
// Nothing is measured unless it is requested. A value that is not known is left out; it is not 0.
package stats
