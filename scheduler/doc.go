// Package scheduler places pods on nodes as Kubernetes' own scheduler does, and by rules of your own beside its. It
// works with any Kubernetes API server.
//
// # A rule
//
// A [Rule] is a name and a few functions. Read takes from a pod what the rule needs, as a text. Filter refuses nodes to
// such pods, and Score prefers some to others:
//
//	scheduler.Rule{
//		Name: "Racks",
//		Read: func(pod *corev1.Pod) string { return pod.Annotations["rack"] },
//		Filter: func(rack string, node scheduler.Node) *scheduler.Refusal {
//			if node.Labels()["rack"] != rack {
//				return &scheduler.Refusal{Reason: "node(s) were in another rack", Final: true}
//			}
//			return nil
//		},
//	}
//
// Pods with the same text are alike for the rule, and results are kept for them until the node changes. So Filter and
// Score must depend on nothing but their arguments. They are called by one goroutine at a time, while nothing changes;
// they need no locks, and must not block. A pod whose text is empty is none of the rule's business: it is not called
// for it.
//
// # Guarantees
//
//   - Capacity is never used twice, also when the answer to a binding is lost.
//   - A pod is placed on a node with the highest score among all nodes that pass all filters, not among a sample of
//     them.
//   - Pods with a higher priority are tried first, then those that have waited longest. A pod without a suitable node
//     is tried again after a change that may help it, and in any case after some minutes.
//   - When Run has returned, nothing of it is running.
//
// Two schedulers that run at once for the same pods may both use the same capacity: run one, or elect a leader (package
// loop).
package scheduler
