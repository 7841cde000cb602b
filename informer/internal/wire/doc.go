// Package wire reads Kubernetes' protobuf: lists and watches as they arrive, and of each object only the fields that an
// informer needs. The rest of an object stays encoded until it is requested.
//
// No bytes from outside make it panic, or allocate more than they announce within fixed bounds.
package wire
