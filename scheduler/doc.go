// Package scheduler gives pods their nodes: it watches pods without one, finds
// the best node for each, and tells the API server by posting bindings.
//
// It works against any Kubernetes. What it guarantees:
//
//   - Never two pods on what fits one. From the moment that a pod is given a
//     node it counts there, until it is seen to have gone or its binding is known
//     to have failed. A binding whose answer got lost is sent again until there is an
//     answer, and counts all the while.
//   - Best of all nodes. A pod goes to a node with the highest score among all
//     that pass the filters, not among a sample of them.
//   - Order. Pods with a higher priority are tried first, then those that wait longest.
//   - Nothing starves. A pod that found no node is tried again when something has
//     changed that the rules which refused it heed, and in any case after some minutes.
//   - When Run has returned, nothing of it is running and no binding is on its way,
//     unless the API server did not answer within [Options.Grace].
//
// It does not guarantee that two schedulers which run at once for the same
// pods agree on what is free: run one, or elect a leader (package loop).
//
// If a pod finds no node where pods of a lower priority are in its way, the fewest and least important of these are deleted
// (preemption), their disruption budgets kept as far as possible. What they leave is kept for it, except from pods of its
// priority or a higher one.
//
// Volumes and devices of a pod are taken for it with its node, and given back if it does not get that. What has to be written
// before it is bound, such as which claim gets which volume, is written while other pods are placed.
//
// Rules are plugins: see package plugin for how to write one, and [Profile] for
// putting them to use; package config makes profiles of a KubeSchedulerConfiguration. Extenders (package extender) have a say
// without being part of the process. [BeforeBind] is for what has to happen between decision and binding.
package scheduler
