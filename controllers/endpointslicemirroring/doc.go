// Package endpointslicemirroring keeps EndpointSlices of the Endpoints that users
// make for services without a selector, for programs that only look at slices.
//
// What is guaranteed, once the cluster rests: each address of such an Endpoints
// object is in one slice of its family for each set of ports, with the condition
// ready, and in no other slice of this loop; at most 1,000 addresses of a subset are mirrored.
// Slices that other controllers manage are not touched.
package endpointslicemirroring
