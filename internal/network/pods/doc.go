// Package pods connects the pods of a node to the network. It has a CNI plugin, which is this program itself, and an
// agent that watches the nodes.
//
// Each pod has its own link to the node, and all packets between pods are routed, never bridged. So address translation
// and policies work the same for pods of one node as for others, and the kernel needs no br_netfilter.
//
// The plugin (Plugin) makes the links. The container runtime calls it with CNI_COMMAND in its environment, by the CNI
// specification 1.1.0: ADD, DEL, CHECK, STATUS, GC and VERSION. It is also the plugin loopback, which containerd needs
// before any other. The Agent writes the plugin's configuration from the node's ranges (spec.podCIDRs), unless there is
// another CNI configuration. It maintains the routes to other nodes, and makes packets from pods to addresses outside
// the cluster have the node's address as their source.
//
// # Guarantees
//
//   - Durable: an address is written to disk before it is assigned. Even if processes are killed, no address is
//     assigned twice, and DEL or GC frees the addresses of an interrupted ADD.
//   - Level: routes and tables follow from the informer's nodes. Changes by other programs are corrected at the next
//     interval.
//   - Own: a pod sends from its own addresses only, in both families. Connections of an address do not outlive its pod.
//   - Held: with [Options.Hold], no packet is forwarded from or to a new pod until the policies of its node know it.
//   - Modest: if there is another CNI configuration, nothing is written.
package pods
