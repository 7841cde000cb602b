package informer

import (
	"hash/maphash"
	"strconv"
	"sync/atomic"
)

// version is one state of one object. It is immutable, but for what serves only to decode it less often and for the
// terms, which belong to the table that it is in.
type version[T any] struct {
	key Key
	rv  uint64 // see parseVersion
	uid uint32 // a hash of the object's UID: it only has to tell whether it is still the same object
	// past is set when the object has moved on. A handler that comes by later need not be shown this version.
	past atomic.Bool

	plain  T      // the object, if packed is empty
	packed []byte // the object as protobuf
	warm   atomic.Pointer[warm[T]]

	terms []term
}

// term says that an index has the version under a value.
type term struct {
	slot  int
	value string
}

// parseVersion reads a resource version. Kubernetes' are whole numbers that can be compared. Others, which test doubles
// and odd servers use, are zero here: unknown.
func parseVersion(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

var uidSeed = maphash.MakeSeed()

func hashUID(uid string) uint32 {
	if uid == "" {
		return 0
	}
	return uint32(maphash.String(uidSeed, uid))
}

// replaces reports whether v is another object than old under the same key.
func (v *version[T]) replaces(old *version[T]) bool {
	return v.uid != old.uid && v.uid != 0 && old.uid != 0
}

func hashUIDBytes(uid []byte) uint32 {
	if len(uid) == 0 {
		return 0
	}
	return uint32(maphash.Bytes(uidSeed, uid))
}
