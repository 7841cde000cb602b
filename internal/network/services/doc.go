// Package services makes the addresses of Services work on a node, with tables of the kernel (nf_tables).
//
//	proxy, err := services.New(services.Options{Clients: clients, Node: "node-1"})
//	err = loop.Run(ctx, clients, proxy)
//
// It behaves like kube-proxy in its nftables mode: cluster IPs, node ports, external and load balancer addresses,
// session affinity, internal and external traffic policies, topology hints, terminating endpoints, source ranges,
// health-check node ports, TCP, UDP and SCTP, both families.
//
// # Guarantees
//
//   - Level: the tables follow from the services, slices and the node in the informers, whatever happened before.
//     Tables and rules that another program has removed come back within seconds, elements within minutes.
//   - Constant: a packet costs a fixed number of lookups, however many services and endpoints there are. There are no
//     rules for services or endpoints, only elements of maps.
//   - Small: a change writes only the elements that differ, and all waiting changes are one transaction.
//   - Gapless: a start takes over the tables that an earlier process left, and the tables stay when Run returns. Remove
//     removes them.
//   - Quiet: when Run has returned, nothing of it is running.
//
// # How a packet finds its endpoint
//
// The map "fronts" has a chain for each address, protocol and port of a service. The chain is named after the number of
// endpoints to choose from. All services with ten endpoints share one chain: it takes a random number below ten, and
// looks up service and number in the map "endpoints". For external addresses and node ports the service's cluster IP is
// first looked up in the map "targets".
package services
