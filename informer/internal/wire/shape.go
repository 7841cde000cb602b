package wire

import (
	"bytes"
	"reflect"
	"strconv"
	"strings"
)

// messageShape says which fields of a message can be shared between objects.
type messageShape struct {
	byNumber []*fieldShape
}

// fieldShape is a field that can be shared, or a message with such fields of its own.
type fieldShape struct {
	index int // among the struct's fields
	inner *messageShape
}

func (s *messageShape) field(number int) *fieldShape {
	if number >= len(s.byNumber) {
		return nil
	}
	return s.byNumber[number]
}

// maxShared is one more than the largest field number that is looked at, since numbers are kept in 64 bits. Where it
// matters no kind of Kubernetes has as many fields.
const maxShared = 64

// shapeOf describes a struct, or returns nil if there is nothing to share in it. Parts are looked for at the top, where
// kinds such as ConfigMap have theirs, and one level down, in metadata, spec and status.
func shapeOf(t reflect.Type, top bool) *messageShape {
	if !reflect.PointerTo(t).Implements(reflect.TypeFor[message]()) {
		return nil
	}
	s := &messageShape{}
	for i := range t.NumField() {
		field := t.Field(i)
		number := FieldNumber(field)
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

// run is what a message says of one field: for lists and maps several wire fields in a row.
type run struct {
	number int
	whole  []byte
}

func nextRun(message []byte) (r run, rest []byte, ok bool) {
	f, rest, err := nextField(message)
	if err != nil {
		return run{}, nil, false
	}
	_, tag := uvarint(message)
	for bytes.HasPrefix(rest, message[:tag]) {
		if _, rest, err = nextField(rest); err != nil {
			return run{}, nil, false
		}
	}
	return run{number: f.number, whole: message[:len(message)-len(rest)]}, rest, true
}

// onlyValue returns the value of a run that is a single field of bytes.
func onlyValue(whole []byte) []byte {
	f, rest, err := nextField(whole)
	if err != nil || len(rest) > 0 || f.value == nil {
		return nil
	}
	return f.value
}

// spans are the runs of a message by number.
type spans struct {
	byNumber [maxShared][]byte
}

// read leaves out fields that come in several runs, so that no run is taken for the whole.
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

// FieldNumber returns the number in protobuf of a struct's field, or zero.
func FieldNumber(field reflect.StructField) int {
	_, rest, _ := strings.Cut(field.Tag.Get("protobuf"), ",")
	number, _, _ := strings.Cut(rest, ",")
	n, _ := strconv.Atoi(number)
	return n
}
