// Package services makes the addresses of Services work on a node, by tables of the kernel (nf_tables).
//
//	proxy, err := services.New(services.Options{Clients: clients, Node: "node-1"})
//	err = loop.Run(ctx, clients, proxy)
//
// Behaviour is that of kube-proxy in its nftables mode: cluster addresses, node ports, external and load balancer addresses,
// session affinity, internal and external traffic policies, topology hints, terminating endpoints, source ranges,
// health-check node ports, TCP, UDP and SCTP, both families.
//
// # Guarantees
//
//   - Level: the tables follow from the services, slices and the node as the informers have them, whatever happened before. Tables
//     and rules that somebody else removed come back within seconds, elements within minutes.
//   - Constant: the way of a packet takes a fixed number of lookups, however many services and endpoints there are. There are
//     no rules for services or endpoints, only elements of maps.
//   - Small: a change writes the elements that differ, and all changes that wait together go in one transaction.
//   - Gapless: a start takes over the tables that an earlier process left, and the end of Run leaves them. Remove removes them.
//   - Quiet: when Run has returned, nothing of it is running.
//
// # How a packet is led
//
// The map "fronts" leads from address, protocol and port to a chain that is named after how many endpoints there are to choose from.
// All services with ten endpoints share one chain: it draws a number below ten, and looks up service and number in the map
// "endpoints". External addresses and node ports go through "targets" first, which name the service's cluster address.
package services
