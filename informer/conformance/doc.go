// Package conformance tests the informers' guarantees against a kube-apiserver, where one is installed:
// KUBEBUILDER_ASSETS names the directory with it and etcd. It has tests only.
package conformance
