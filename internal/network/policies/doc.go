// Package policies enforces NetworkPolicies for the pods of a node, with the kernel's nf_tables.
//
//	agent, err := policies.New(policies.Options{Clients: clients, Node: "node-1"})
//	err = loop.Run(ctx, clients, agent)
//
// # Guarantees
//
//   - Complete: ingress and egress, pod and namespace selectors, blocks with exceptions, ports by number, range and
//     name, for TCP, UDP and SCTP, in both families. What Kubernetes always allows is allowed: a pod reaches itself,
//     and the node reaches its pods.
//   - Atomic: a change of policies, pods or namespaces takes effect in one transaction. No packet sees half of it.
//   - Local: a node's tables contain only the policies that select its own pods. The cost of a packet depends on the
//     policies of its two pods, not on the number of other policies.
//   - Level: the tables follow from the informers. Changes by other programs are corrected within [Options.Check].
//   - Lasting: tables stay when Run returns, so a restart allows nothing that is forbidden. [Remove] removes them.
//   - Early: with [Options.Given], a pod is isolated before its first container starts: its packets wait until the
//     tables have its addresses.
//
// # What a caller may not assume
//
// Policies decide when a connection begins: an established connection continues when a policy changes. Without
// [Options.Given], a pod is isolated from the moment when its address is in the API and this agent's informer has
// received it. Packets are filtered where the node forwards them, so pods must be routed, as in package pods: on a
// bridge the kernel needs br_netfilter.
package policies
