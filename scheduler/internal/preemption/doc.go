// Package preemption finds pods that must leave so that one with a higher priority can be placed.
//
// What it guarantees: without the victims of a [Candidate], all filters admit the pod to the node; all of them have a lower
// priority than the pod; none of them could stay (each was asked about again, the most important ones first). Pods whose
// disruption budget would be violated leave only where it does not work without. Of several nodes the one is taken that
// kube-scheduler would take.
//
// Nothing is changed: the victims are only named.
package preemption
