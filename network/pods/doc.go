// Package pods gives the pods of a node a network: a CNI plugin that the program itself is, and an agent that follows the nodes.
//
// Each pod has a link of its own to the node, and everything between pods is routed, never bridged. So translated addresses and
// policies work for pods of one node as for any others, and the kernel needs no br_netfilter.
//
// The plugin (Plugin) makes the links. It is called by the container runtime with CNI_COMMAND in its environment, and follows the CNI
// specification 1.1.0: ADD, DEL, CHECK, STATUS, GC and VERSION. It is also the plugin
// loopback, which containerd needs before any other. The Agent writes the plugin's configuration from the node's range
// (spec.podCIDRs), unless somebody else has configured CNI; it keeps the routes to other nodes, and hides pods behind the
// node's address when they talk to the world.
//
// # Guarantees
//
//   - Durable: an address is noted on disk before it is given out. Whatever is killed when, no address is given twice, and DEL or
//     GC frees what an interrupted ADD had taken.
//   - Level: routes and tables follow from the nodes as the informer has them; what somebody else changed is put right at the
//     next full pass.
//   - Modest: where a CNI configuration of somebody else exists, nothing is written.
package pods
