// Package dns answers the names of a cluster, by Kubernetes' DNS specification (version 1.1.0), and forwards all other
// requests.
//
//	server, err := dns.New(dns.Options{Clients: clients, Listen: []string{"10.96.0.10:53"}})
//	err = loop.Run(ctx, clients, server)
//
// # Guarantees
//
//   - Direct: an answer about the cluster is read from the informers when the request arrives. There is no second copy
//     of the records, so a name is answered as soon as the informers have its service and slices.
//   - Lasting: while the API server cannot be reached, names are answered from the last known state.
//   - Honest: before the informers have synced, names of the cluster are answered with SERVFAIL, never with a wrong
//     NXDOMAIN.
//   - Bounded: the cache, the requests that wait for upstream servers and the TCP connections each have a maximum.
//   - Loop free: a probe finds upstream servers that forward to this server. They are not used until a later probe
//     succeeds.
//   - Quiet: when Run has returned, no socket and no goroutine is left.
//
// # What is answered
//
// Services with and without a cluster IP (A, AAAA), named ports (SRV), host names of endpoints, reverse lookups of both
// (PTR), services of type ExternalName (CNAME, followed), addresses of pods in the form a-b-c-d.NAMESPACE.pod, and
// dns-version. The name of an endpoint without a host name is its address with dashes, as in CoreDNS. A name that
// exists without records of the requested type has an empty answer; a name that does not exist is NXDOMAIN. Both
// contain the zone's SOA.
package dns
