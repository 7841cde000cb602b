// Package state has the parts of an informer's cache: versions of objects, tables of them with indexes, and the set of
// objects that are kept decoded.
package state

import (
	"strconv"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/informer/internal/wire"
	"github.com/millrace/millrace/informer/key"
)

// Version is one state of one object. It is immutable except for decoded, which caches the decoded object, Superseded,
// and terms, which belong to the table that holds the version.
type Version[T any] struct {
	Key      Key
	Revision uint64 // see ParseRevision
	UID      uint32 // see wire.HashUID
	// Superseded is set when the object has a newer version or was deleted. A handler that reads the change later is
	// not given this version.
	Superseded atomic.Bool

	Plain  T      // the object, if Packed is empty
	Packed []byte // the object as protobuf

	decoded atomic.Pointer[decoded[T]] // set while the hot set has the object
	terms   []term
}

// term is an index and the value under which it has the version.
type term struct {
	slot  int
	value string
}

// Describe returns a version of the object without its content.
func Describe[T any](object metav1.Object) *Version[T] {
	return &Version[T]{
		Key: key.Of(object), Revision: ParseRevision(object.GetResourceVersion()), UID: wire.HashUID(string(object.GetUID())),
	}
}

// Replaces reports whether v and old are different objects with the same key.
func (v *Version[T]) Replaces(old *Version[T]) bool {
	return v.UID != old.UID && v.UID != 0 && old.UID != 0
}

// ParseRevision parses a resource version. Kubernetes' are whole numbers that can be compared. Others, which test
// doubles and unusual servers use, give zero: unknown.
func ParseRevision(resourceVersion string) uint64 {
	n, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
