// Package config reads a KubeletConfiguration (kubelet.config.k8s.io/v1beta1), the kubelet's file for --config, and
// drop-ins for it.
//
// Guarantees: unknown fields are errors. A missing field is its zero value: what that means is up to the one who uses
// it. A drop-in replaces lists and single values, and adds to maps, in the order of the files' names. [Ignored] names
// the fields of a file that mean something to Kubernetes' kubelet and nothing here.
package config
