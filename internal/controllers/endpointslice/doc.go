// Package endpointslice maintains the EndpointSlices of Services with a selector.
//
// Guarantees, once nothing changes:
//
//   - Complete: each pod that a Service selects, that has an address of one of the
//     Service's IP families, and that has not ended, is in exactly one slice for each
//     family, with the conditions ready, serving and terminating as in Kubernetes.
//   - Bounded: no slice has more than 100 endpoints.
//   - Still: a change of one pod changes one slice. Slices are not repacked, because
//     every change of a slice is sent to every node.
//   - Lasting: a slice keeps its name when its ports change, and when it gets its
//     first endpoints.
//   - Own: slices of other controllers are not touched.
//
// A Service's trafficDistribution becomes hints for zones and nodes.
//
// Hints by the zones' CPU, for which there is an annotation, are not supported. Endpoints in a slice have no order.
package endpointslice
