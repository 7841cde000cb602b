// Package conformance holds informers to their guarantees against a kube-apiserver, where one is installed:
// KUBEBUILDER_ASSETS names the folder with it and etcd. It has tests only.
package conformance
