// Package dns answers the names of a cluster, by Kubernetes' DNS specification (version 1.1.0), and forwards all other
// questions.
//
//	server, err := dns.New(dns.Options{Clients: clients, Listen: []string{"10.96.0.10:53"}})
//	err = loop.Run(ctx, clients, server)
//
// # Guarantees
//
//   - Direct: an answer about the cluster is read from the informers at the moment of the question. There is no second copy of
//     the records, so a name answers as soon as the informer has its service and slices.
//   - Lasting: while the API server is away, names go on being answered as they were last known.
//   - Honest: before the informers have filled for the first time, names of the cluster are answered with SERVFAIL, never
//     with a false "does not exist".
//   - Bounded: the cache, the questions that wait for upstream servers and the TCP connections have each a largest number.
//   - Loop free: an upstream server that leads back to this server is found by a probe, and is not asked until a later probe
//     says otherwise.
//   - Quiet: when Run has returned, no socket and no goroutine is left.
//
// # What is answered
//
// Services with and without a cluster address (A, AAAA), named ports (SRV), host names of endpoints, reverse lookups of both
// (PTR), services with an external name (CNAME, followed), addresses of pods in the form a-b-c-d.NAMESPACE.pod, and
// dns-version. Endpoints without a host name are called after their address, with dashes, as CoreDNS does it. A name that
// exists without the type asked for has an empty answer; a name that does not exist is NXDOMAIN; both carry the zone's SOA.
package dns
