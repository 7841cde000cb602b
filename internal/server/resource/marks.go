package resource

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/millrace/millrace/internal/protobuf"
)

// marks are paths of values that every object has which was stored with today's defaults. An object that lacks one was
// stored by an older server, and gets the defaults when it is read. So the others, which are nearly all, need only a
// look at some field numbers.
type marks [][]step

// Mark names values, by their paths in JSON, that every object of the kind has which was stored with today's defaults.
// Nobody may use the kind yet.
func (k *Kind) Mark(paths ...string) {
	s := k.Representation.(*structs)
	for _, path := range paths {
		s.marks = append(s.marks, compilePath(s.goType, path))
	}
}

// OnRead has objects that lack a marked value completed in another way too, after they got their defaults.
func OnRead[P Object](k *Kind, complete func(P)) {
	k.Representation.(*structs).onRead = erased(complete)
}

// found reports whether a message has all values.
func (m marks) found(message []byte) bool {
	for _, steps := range m {
		b := message
		for _, s := range steps {
			f, ok := protobuf.Last(b, s.number)
			if !ok || f.Type == protowire.BytesType && len(f.Bytes) == 0 { // empty texts are stored too
				return false
			}
			b = f.Bytes
		}
	}
	return true
}
