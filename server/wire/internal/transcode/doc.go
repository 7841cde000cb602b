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

// Append appends the members of the text and its closing brace to what has been begun with a brace, and perhaps with other
// members. What is appended to is left alone if it tells false.
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

// reader goes through one message. Its methods append to the text that they are given, and return nothing where they refuse:
// text that is handed on costs less than text that is kept here, where the collector wants to know of each change.
type reader struct {
	spans   []span
	version []byte
	out     []byte
}

// span is where a field's value lies in its message. A field of many values has the place of all of them: from is then one
// more than where the first one's tag begins. Zero is a field that is not there.
type span struct{ from, to uint32 }

// largestMessage is what spans can measure; no store keeps objects of that size.
const largestMessage = 1 << 30

// largestKept keeps one huge object from holding on to its memory for ever.
const largestKept = 256 << 10

var readers = sync.Pool{New: func() any {
	return &reader{out: make([]byte, 0, 8<<10), spans: make([]span, 0, 128)}
}}
