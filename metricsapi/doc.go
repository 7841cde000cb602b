// Package metricsapi serves metrics.k8s.io/v1beta1: what nodes and pods use now, for kubectl top and for autoscaling.
//
// What is guaranteed: figures are asked of the kubelets, through the API server's way to them, when a client asks, and are at most as old as [Options.MaxAge];
// several clients that ask at the same time cause one question. A node that does not answer is left out and does not delay others; a pod is
// shown when all of its running containers have been measured. At rest nothing is asked and nothing is kept but the last answers.
//
// What may not be assumed: that a pod which has just started is shown. Who may ask is decided by the API server in front.
package metricsapi
