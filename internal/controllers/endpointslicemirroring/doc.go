// Package endpointslicemirroring mirrors Endpoints that users maintain, for Services without a selector, to
// EndpointSlices.
//
// Guarantees, once nothing changes: each address of such an Endpoints object is in one slice of its family for each set
// of ports, with the condition ready, and in no other slice of this loop. At most 1,000 addresses of a subset are
// mirrored. Slices of other controllers are not touched.
package endpointslicemirroring
