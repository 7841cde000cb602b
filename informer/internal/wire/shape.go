package wire

import (
	"bytes"
	"reflect"

	"github.com/millrace/millrace/internal/protobuf"
)

// messageShape lists the fields of a message that can be shared between objects.
type messageShape struct {
	byNumber []*fieldShape
}

// fieldShape is a field that can be shared, or a message that has such fields.
type fieldShape struct {
	index int // the field's index in the struct
	inner *messageShape
}

func (s *messageShape) field(number int) *fieldShape {
	if number >= len(s.byNumber) {
		return nil
	}
	return s.byNumber[number]
}

// maxShared is one more than the largest field number that can be shared: numbers are bits of 64. No kind of Kubernetes
// with parts to share has more fields.
const maxShared = 64

// shapeOf describes a struct, or returns nil if there is nothing to share in it. Parts are found at the top level,
// where kinds such as ConfigMap have theirs, and one level below, in metadata, spec and status.
func shapeOf(t reflect.Type, top bool) *messageShape {
	if !reflect.PointerTo(t).Implements(reflect.TypeFor[message]()) {
		return nil
	}
	s := &messageShape{}
	for i := range t.NumField() {
		field := t.Field(i)
		number := int(protobuf.NumberOf(field))
		if number == 0 || number >= maxShared || !field.IsExported() {
			continue
		}
		f := &fieldShape{index: i}
		switch field.Type.Kind() {
		case reflect.Struct:
			if top {
				f.inner = shapeOf(field.Type, false)
			}
		case reflect.Map, reflect.Pointer:
		case reflect.Slice:
			if field.Type.Elem().Kind() == reflect.Uint8 {
				continue
			}
		default:
			continue
		}
		for len(s.byNumber) <= number {
			s.byNumber = append(s.byNumber, nil)
		}
		s.byNumber[number] = f
	}
	if s.byNumber == nil {
		return nil
	}
	return s
}

// run is the bytes of one field in a message: for lists and maps several consecutive wire fields.
type run struct {
	number int
	whole  []byte
}

func nextRun(message []byte) (r run, rest []byte, ok bool) {
	s := protobuf.Scan(message)
	if !s.Next() {
		return run{}, nil, false
	}
	number := int(s.Number)
	_, tag := protobuf.Varint(message)
	for bytes.HasPrefix(s.Rest(), message[:tag]) {
		if !s.Next() {
			return run{}, nil, false
		}
	}
	return run{number: number, whole: message[:len(message)-len(s.Rest())]}, s.Rest(), true
}

// onlyValue returns the value of a run that consists of a single field of bytes.
func onlyValue(whole []byte) []byte {
	s := protobuf.Scan(whole)
	if !s.Next() || len(s.Rest()) > 0 {
		return nil
	}
	return s.Bytes
}

// spans are a message's runs by field number.
type spans struct {
	byNumber [maxShared][]byte
}

// read leaves out fields that occur in several runs: one run is not the whole field.
func (s *spans) read(message []byte) {
	var pieces uint64
	for len(message) > 0 {
		r, rest, ok := nextRun(message)
		if !ok {
			*s = spans{}
			return
		}
		message = rest
		if r.number >= maxShared {
			continue
		}
		if s.byNumber[r.number] != nil {
			pieces |= 1 << r.number
		}
		s.byNumber[r.number] = r.whole
	}
	for number := range s.byNumber {
		if pieces&(1<<number) != 0 {
			s.byNumber[number] = nil
		}
	}
}

func (s *spans) at(number int) []byte {
	if number >= maxShared {
		return nil
	}
	return s.byNumber[number]
}
