// Package protobuf reads and writes the messages of Kubernetes without their Go types: fields are found by their
// numbers, and passed on as bytes.
//
// Guarantees:
//
//   - A [Scanner] visits the fields that google.golang.org/protobuf/encoding/protowire finds, in their order, and fails
//     where that fails.
//   - Nothing is copied: what is found shares the memory of the message. Appending to it copies it first.
//   - No message makes a function here panic, or read behind its end.
//
// A caller may not assume that a field is there only once, nor that its type is the expected one.
package protobuf

import (
	"encoding/binary"
	"errors"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// Number is the number of a field, which is a part of the API and never changes.
type Number = protowire.Number

// ErrMalformed is wrapped by all errors about bytes that are no message.
var ErrMalformed = errors.New("malformed protobuf")

// Field is one field of a message.
type Field struct {
	Number Number
	Type   protowire.Type
	Bytes  []byte // the value of a field of bytes; nil for other types
	Varint uint64 // the value of a number of variable length
	Whole  []byte // the field with its tag
}

// Scanner walks through the fields of a message: call Next before each of them.
type Scanner struct {
	Field
	rest   []byte
	failed bool
}

// Scan returns a scanner that is before the first field.
func Scan(message []byte) Scanner { return Scanner{rest: message} }

// Rest returns what follows the current field.
func (s *Scanner) Rest() []byte { return s.rest }

// Err returns an error if the scanner has stopped before the end.
func (s *Scanner) Err() error {
	if s.failed {
		return ErrMalformed
	}
	return nil
}

// Next goes to the next field. It returns false at the end, and when what follows is no field.
func (s *Scanner) Next() bool {
	if len(s.rest) == 0 {
		return false
	}
	tag, at := Varint(s.rest)
	number := tag >> 3
	if at == 0 || number == 0 || number > math.MaxInt32 { // the limit of protowire; definitions have a lower one
		return s.fail()
	}
	s.Number, s.Type = Number(number), protowire.Type(tag&7)
	from, to := extent(s.rest, at, s.Number, s.Type)
	if to < 0 {
		return s.fail()
	}
	s.Bytes, s.Varint, s.Whole = nil, 0, s.rest[:to:to]
	switch s.Type {
	case protowire.BytesType:
		s.Bytes = s.rest[from:to:to]
	case protowire.VarintType:
		s.Varint, _ = Varint(s.rest[from:])
	}
	s.rest = s.rest[to:]
	return true
}

func (s *Scanner) fail() bool {
	*s = Scanner{failed: true}
	return false
}

// Varint reads a number of variable length. The size is 0 if there is none.
func Varint(b []byte) (value uint64, size int) {
	if len(b) > 0 && b[0] < 0x80 { // most numbers are small
		return uint64(b[0]), 1
	}
	value, size = binary.Uvarint(b)
	return value, max(size, 0)
}

// extent is Extent for all types.
func extent(b []byte, at int, number Number, t protowire.Type) (from, to int) {
	if t != protowire.StartGroupType {
		return Extent(b, at, t)
	}
	n := protowire.ConsumeFieldValue(number, t, b[at:])
	if n < 0 {
		return 0, -1
	}
	return at, at + n
}

// Extent returns where a value begins and ends, given where its tag ended. A value of bytes begins after its length. If
// the message does not contain the whole value, or the type is one that Kubernetes does not use, to is negative.
func Extent(b []byte, at int, t protowire.Type) (from, to int) {
	if at < len(b) && b[at] < 0x80 { // most lengths and numbers are small
		if t == protowire.VarintType {
			return at, at + 1
		}
		if to := at + 1 + int(b[at]); t == protowire.BytesType && to <= len(b) {
			return at + 1, to
		}
	}
	from, to = at, -1
	switch t {
	case protowire.Fixed64Type:
		to = at + 8
	case protowire.Fixed32Type:
		to = at + 4
	case protowire.VarintType:
		if _, n := Varint(b[min(at, len(b)):]); n > 0 {
			to = at + n
		}
	case protowire.BytesType:
		size, n := Varint(b[min(at, len(b)):])
		if n > 0 && size <= uint64(len(b)-at-n) {
			return at + n, at + n + int(size)
		}
	}
	if to > len(b) {
		to = -1
	}
	return from, to
}

// Last returns the last field of a number, which is the one that counts if there are several.
func Last(message []byte, number Number) (f Field, found bool) {
	for s := Scan(message); s.Next(); {
		if s.Number == number {
			f, found = s.Field, true
		}
	}
	return f, found
}

// Split returns the first field of bytes that has a number, and what is before and after it. If there is none, all is
// before it.
func Split(message []byte, number Number) (before []byte, f Field, after []byte, found bool) {
	for s := Scan(message); s.Next(); {
		if s.Number == number && s.Type == protowire.BytesType {
			start := len(message) - len(s.rest) - len(s.Whole)
			return message[:start:start], s.Field, s.rest, true
		}
	}
	return message, Field{}, nil, false
}

// Entry returns the key and the value of an entry of a map.
func Entry(entry []byte) (key, value []byte, err error) {
	s := Scan(entry)
	for s.Next() {
		switch s.Number {
		case 1:
			key = s.Bytes
		case 2:
			value = s.Bytes
		}
	}
	return key, value, s.Err()
}
