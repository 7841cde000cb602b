// Package wire reads Kubernetes' protobuf: lists and watches as they arrive, and as much of each object as an informer
// needs to keep it encoded. It decodes an object when somebody asks for it.
//
// Bytes from outside never make it panic or allocate more than they announce within fixed bounds.
package wire
