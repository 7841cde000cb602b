// Package state holds what an informer's cache consists of: versions of objects, tables of them with indexes, and the
// objects that are kept decoded.
package state

import (
	"strconv"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/informer/internal/wire"
)

// Version is one state of one object. It is immutable, except for what makes decoding it again unnecessary and for the
// terms, which belong to the table that it is in.
type Version[T any] struct {
	Key      Key
	Revision uint64 // see ParseRevision
	UID      uint32 // see wire.HashUID
	// Superseded is set when the object has a newer version or is gone. A handler that comes by later is not shown this
	// one.
	Superseded atomic.Bool

	Plain  T      // the object, if Packed is empty
	Packed []byte // the object as protobuf

	decoded atomic.Pointer[decoded[T]] // set while the hot set has the object
	terms   []term
}

// term says that an index has the version under a value.
type term struct {
	slot  int
	value string
}

// Describe returns a version of the object without its content.
func Describe[T any](object metav1.Object) *Version[T] {
	return &Version[T]{
		Key: KeyOf(object), Revision: ParseRevision(object.GetResourceVersion()), UID: wire.HashUID(string(object.GetUID())),
	}
}

// Replaces reports whether v is another object than old under the same key.
func (v *Version[T]) Replaces(old *Version[T]) bool {
	return v.UID != old.UID && v.UID != 0 && old.UID != 0
}

// ParseRevision reads a resource version. Those of Kubernetes are whole numbers that can be compared. Others, which test
// doubles and unusual servers use, are zero here: unknown.
func ParseRevision(resourceVersion string) uint64 {
	n, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
