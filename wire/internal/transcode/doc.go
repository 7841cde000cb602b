// Package transcode makes the JSON of Kubernetes objects straight from their protobuf messages.
//
// A Plan is compiled once from a Go type: its struct tags say under which number protobuf keeps a field, and under which
// name, in which order and with which omissions encoding/json writes it. With the plan a message is read once and its
// JSON written once; nothing is decoded into Go structs in between.
//
// What is guaranteed:
//
//   - The text is, byte for byte, what json.Marshal makes of the object that the message decodes to.
//   - Whatever a plan does not know (fields of a newer version, a singular field that comes twice, map keys out of order, a
//     message cut short) is refused, never guessed: then the caller decodes the object after all, and gets that way's
//     answer or error.
package transcode

import (
	"bytes"
	"sync"
)

// JSON makes the text of a message with the given resource version in its metadata, or none if that is empty. It tells
// false if the plan does not cover the message.
func (p *Plan) JSON(message []byte, version string) ([]byte, bool) {
	t := texts.Get().(*text)
	defer t.free()
	t.version = version
	if len(message) > largestMessage || !t.message(p.root, message) {
		return nil, false
	}
	return bytes.Clone(t.out), true
}

// text is JSON in the making.
type text struct {
	out     []byte
	spans   []span
	version string
}

// span is where a field's value lies in its message. A field of many values has the place of all of them: from is then one
// more than where the first one's tag begins. Zero is a field that is not there.
type span struct{ from, to uint32 }

// largestMessage is what spans can measure; no store keeps objects of that size.
const largestMessage = 1 << 30

// largestKept keeps one huge object from holding on to its memory for ever.
const largestKept = 256 << 10

var texts = sync.Pool{New: func() any {
	return &text{out: make([]byte, 0, 8<<10), spans: make([]span, 0, 128)}
}}

func (t *text) free() {
	if cap(t.out) > largestKept {
		return
	}
	t.out, t.spans, t.version = t.out[:0], t.spans[:0], ""
	texts.Put(t)
}
