package informer

import (
	"bytes"
	"reflect"
)

// decoder decodes objects of one type. Where it is given another version of the same object it takes over those parts
// that have not changed: most updates change the metadata and the status, while most of the work, and of the memory, is
// in the spec. Objects that are handed out are never modified, so versions may share parts.
type decoder[T any] struct {
	parts map[int]int // the messages that an object is made of: from field number to index in the struct
}

func newDecoder[T Object]() *decoder[T] {
	d := &decoder[T]{parts: map[int]int{}}
	t := reflect.TypeFor[T]().Elem()
	for i := range t.NumField() {
		field := t.Field(i)
		if number := wireNumber(field); number != 0 && field.Type.Kind() == reflect.Struct {
			d.parts[number] = i
		}
	}
	return d
}

// decode returns the object that the bytes encode.
func (d *decoder[T]) decode(content []byte) (T, error) { return decodeInto[T](content) }

// decodeLike does the same with the help of another version, given encoded and decoded.
func (d *decoder[T]) decodeLike(content, other []byte, like T) (T, error) {
	changed, same := d.compare(content, other)
	if same == nil {
		return decodeInto[T](content)
	}
	object, err := decodeInto[T](changed)
	if err != nil {
		return object, err
	}
	to, from := reflect.ValueOf(object).Elem(), reflect.ValueOf(like).Elem()
	for _, part := range same {
		to.Field(part).Set(from.Field(part))
	}
	return object, nil
}

// compare returns the fields of a message that differ from another's, and which parts are the same in both.
func (d *decoder[T]) compare(content, other []byte) (changed []byte, same []int) {
	err := eachField(content, func(f wireField) error {
		if part, ok := d.parts[f.number]; ok && bytes.Equal(f.value, onlyField(other, f.number)) {
			same = append(same, part)
		} else {
			changed = append(changed, f.whole...)
		}
		return nil
	})
	if err != nil {
		return nil, nil
	}
	return changed, same
}

// onlyField returns a message's field of bytes.
func onlyField(message []byte, number int) (value []byte) {
	for len(message) > 0 {
		f, rest, err := nextField(message)
		if err != nil {
			return nil
		}
		if f.number == number {
			value = f.value
		}
		message = rest
	}
	return value
}
