// Package transcode makes the JSON of Kubernetes objects directly from their protobuf messages.
//
// A Plan is compiled once from a Go type. The struct tags give each field's protobuf number, and its name, order and
// omission in the output of encoding/json. With a plan the message is read once and the JSON written once; nothing is
// decoded into Go structs in between.
//
// Guarantees:
//
//   - The text is, byte for byte, what json.Marshal makes of the object that the message decodes to.
//   - Whatever a plan does not know (fields of a newer version, a singular field that comes twice, map keys out of
//     order, a truncated message) is refused, never guessed. Then the caller decodes the object, and gets the result or
//     the error of that.
package transcode

import (
	"bytes"
	"sync"
)

// JSON returns the text of a message with the given resource version in its metadata, or without one if it is empty. If
// the plan does not cover the message, ok is false.
func (p *Plan) JSON(message, version []byte) (text []byte, ok bool) {
	if len(message) > largestMessage {
		return nil, false
	}
	r := readers.Get().(*reader)
	r.version = append(r.version[:0], version...)
	if out := r.message(r.out[:0], p.root, message); out != nil {
		text, ok = bytes.Clone(out), true
		r.out = out
	}
	if cap(r.out) <= largestKept {
		r.spans = r.spans[:0]
		readers.Put(r)
	}
	return text, ok
}

// Append appends the members of the text and its closing brace to begun, which starts with a brace and may hold other
// members. If ok is false, begun is unchanged.
func (p *Plan) Append(begun, message, version []byte) (text []byte, ok bool) {
	if len(message) > largestMessage {
		return begun, false
	}
	r := readers.Get().(*reader)
	r.version = append(r.version[:0], version...)
	text = r.fields(begun, p.root, message)
	r.spans = r.spans[:0]
	readers.Put(r)
	if text == nil {
		return begun, false
	}
	return append(text, '}'), true
}

// reader reads one message. Its methods append to the text that they are given, and return nil if they refuse: passing
// the text costs less than storing it here, where each change would meet the garbage collector's write barrier.
type reader struct {
	spans   []span
	version []byte
	out     []byte
}

// span is the place of a field's value in its message. For a repeated field it covers all values, and from is one more
// than the offset of the first tag. The zero span is a missing field.
type span struct{ from, to uint32 }

// largestMessage is the largest message whose offsets fit into spans; no store keeps such large objects.
const largestMessage = 1 << 30

// largestKept bounds the memory that a pooled reader keeps after a huge object.
const largestKept = 256 << 10

var readers = sync.Pool{New: func() any {
	return &reader{out: make([]byte, 0, 8<<10), spans: make([]span, 0, 128)}
}}
