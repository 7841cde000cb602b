// Package access proves who may do what in a whole cluster: what clients are allowed, what attackers are refused, and
// that the cluster's own parts need no more than Kubernetes gives them.
package access
