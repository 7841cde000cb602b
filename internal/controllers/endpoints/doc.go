// Package endpoints maintains Endpoints objects for Services with a selector, for clients that do not use
// EndpointSlices.
//
// Guarantees, once nothing changes: the object lists each pod that the Service selects, that has an address of the
// Service's first IP family and that has not ended, under each of its ports, as ready or not ready. Subsets are
// canonical, so equal endpoints always give equal objects. At most 1,000 addresses are listed; an annotation marks an
// object with more.
//
// The object is deleted with its Service, also if a user has made it. One of a user's own stays if its Service was
// deleted while the loop did not run.
package endpoints
