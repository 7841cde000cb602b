// Package preemption finds pods that must be deleted so that a pod with a higher priority can be placed.
//
// Guarantees: without the victims of a [Candidate] all filters admit the pod to the node. All victims have a lower
// priority than the pod. None of them could stay: each was checked again, the most important first. Pods whose
// disruption budget would be violated are victims only if it does not work without them. Of several nodes the result is
// the one that kube-scheduler would choose.
//
// Nothing is changed: the victims are only returned.
package preemption
