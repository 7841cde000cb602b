// Package access tests permissions in a whole cluster: what clients are allowed, what attackers are refused, and that
// the cluster's own components need no more permissions than in Kubernetes.
package access
