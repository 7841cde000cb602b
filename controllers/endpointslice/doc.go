// Package endpointslice keeps the EndpointSlices of services that select pods.
//
// What is guaranteed, once the cluster rests:
//
//   - Complete: each pod that a service selects, that has an address of a family
//     that the service has, and that has not ended, is in exactly one slice for each
//     family, with the conditions ready, serving and terminating as Kubernetes means them.
//   - Bounded: no slice has more than 100 endpoints.
//   - Still: a change of one pod changes one slice. Slices are not repacked to be
//     fuller, since every change of a slice goes to every node.
//   - Lasting: a slice keeps its name when its ports change, and when it gets its
//     first endpoints.
//   - Own: slices that other controllers manage are not touched.
//
// A service's trafficDistribution becomes hints for zones and nodes.
//
// What may not be assumed: hints by the zones' shares of CPU, which an annotation
// asks for, and an order of endpoints in a slice.
package endpointslice
