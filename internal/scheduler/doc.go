// Package scheduler assigns pods to nodes: it watches pods without a node, finds the best node for each, and posts
// bindings.
//
// It works with any Kubernetes API server. Guarantees:
//
//   - Capacity is never used twice. From the decision on a pod counts on its node, until it is seen to have ended or
//     its binding is known to have failed. If the answer to a binding is lost, the binding is sent again until there is
//     an answer, and the pod counts all the while.
//   - Best of all nodes. A pod is placed on a node with the highest score among all nodes that pass the filters, not
//     among a sample of them.
//   - Order. Pods with a higher priority are tried first, then those that have waited longest.
//   - No starvation. A pod without a suitable node is tried again after a change that matters to the rules which
//     refused it, and in any case after some minutes.
//   - When Run has returned, nothing of it is running and no request for a binding is in progress, unless the API
//     server did not answer within [Options.Grace].
//
// Two schedulers that run at once for the same pods may both use the same capacity: run one, or elect a leader (package
// loop).
//
// If a pod finds no node because of pods with a lower priority, the fewest and least important of these are deleted
// (preemption), and their disruption budgets are respected as far as possible. The capacity that they free is kept for
// the pod, except from pods with the same or a higher priority.
//
// Volumes and devices are reserved together with the node, and released if the binding fails. What must be written
// before the binding, such as which claim gets which volume, is written while other pods are placed.
//
// Rules are plugins: package plugin says how to write one, and [Profile] how to use it; package config makes profiles
// from a KubeSchedulerConfiguration. Extenders (package extender) take part from outside the process. [BeforeBind] is
// for work between the decision and the binding.
package scheduler
