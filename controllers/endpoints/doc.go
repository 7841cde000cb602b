// Package endpoints keeps the Endpoints object of services that select pods, for
// clients that do not know EndpointSlices.
//
// What is guaranteed, once the cluster rests: the object lists each pod that the
// service selects, that has an address of the service's first IP family and that has
// not ended, under each of the ports that it serves, as ready or not ready; subsets
// are canonical, so that the same endpoints always look the same. At most 1,000
// addresses are listed; if there are more, an annotation says so.
package endpoints
