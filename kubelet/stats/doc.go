// Package stats tells what a node and its pods use: as the kubelet's summary, and as metrics in Prometheus' text form
// under the kubelet's names, so that metrics-server and other clients of kubelets can read them.
//
// What is guaranteed: nothing is measured unless somebody asks; a figure that is not known is left out rather than 0.
package stats
