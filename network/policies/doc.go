// Package policies enforces NetworkPolicies for the pods of a node, by the kernel's nf_tables.
//
//	agent, err := policies.New(policies.Options{Clients: clients, Node: "node-1"})
//	err = loop.Run(ctx, clients, agent)
//
// # Guarantees
//
//   - Complete: ingress and egress, pod and namespace selectors, blocks with exceptions, ports by number, range and name, for TCP, UDP
//     and SCTP, in both families. What Kubernetes always allows stays allowed: a pod reaches itself, and the node reaches its pods.
//   - Atomic: a change of policies, pods or namespaces takes effect in one transaction. No packet sees half of it.
//   - Local: a node's tables hold the policies that select its own pods, and nothing of others. A packet's way depends on the
//     policies of its two pods, and not on how many others there are.
//   - Level: the tables follow from the informers. What somebody else changed is put right within [Options.Check].
//   - Lasting: tables stay when Run returns, so that a restart opens nothing. [Remove] removes them.
//
// # What a caller may not assume
//
// Policies decide when a connection begins: one that is established goes on when a policy changes. A pod is isolated from the moment
// when its address is known to the API and this agent has heard of it. Packets are judged where the node forwards them, so pods must be
// routed, as package pods does it: on a bridge the kernel needs br_netfilter.
package policies
