// Package metricsapi serves metrics.k8s.io/v1beta1: the current usage of nodes and pods, for kubectl top and for
// autoscaling.
//
// Guarantees: usage is read from the kubelets, through the API server's proxy, when a client asks, and is at most as
// old as [Options.MaxAge]. Several clients that ask at the same time cause one request to each kubelet. A node that
// does not answer is left out and does not delay others. A pod is shown when all of its running containers have been
// measured. Without clients nothing is read, and only the last answers are kept.
//
// A pod that has just started may be missing. Authorization is left to the API server in front.
package metricsapi
