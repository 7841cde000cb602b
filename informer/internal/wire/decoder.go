package wire

import (
	"bytes"
	"reflect"
	"sync"
)

// Decoder decodes objects of one type. Most of the work and of the memory is in parts that repeat: replicas have the
// same containers, and an update leaves most of an object unchanged. Parts with the same bytes are decoded once and
// shared between objects. So callers must not modify the objects.
type Decoder[T any] struct {
	shape *messageShape // nil: objects of this type have no shared parts
	parts partCache
}

// NewDecoder returns a decoder, which is safe for use by several goroutines.
func NewDecoder[T any]() *Decoder[T] {
	return &Decoder[T]{shape: shapeOf(reflect.TypeFor[T]().Elem(), true)}
}

// Decode returns the object that the bytes encode.
func (d *Decoder[T]) Decode(content []byte) (T, error) {
	return d.decodeWith(content, nil, reflect.Value{})
}

// DecodeLike does the same, given another version of the object, encoded and decoded: unchanged parts are taken from
// it.
func (d *Decoder[T]) DecodeLike(content, other []byte, like T) (T, error) {
	return d.decodeWith(content, other, reflect.ValueOf(like).Elem())
}

func (d *Decoder[T]) decodeWith(content, other []byte, like reflect.Value) (T, error) {
	if d.shape == nil {
		return Decode[T](content)
	}
	object := reflect.New(reflect.TypeFor[T]().Elem())
	if !d.parts.fill(d.shape, object.Elem(), content, other, like) {
		return Decode[T](content) // something is unusual: decode the whole object, or return its error
	}
	return object.Interface().(T), nil
}

// structDecoder decodes one message into a struct.
type structDecoder struct {
	parts  *partCache
	to     reflect.Value
	like   reflect.Value // not valid: there is none
	others spans         // the encoded form of like

	seen uint64    // a bit for each field that has been read
	rest []byte    // the fields that the generated code decodes
	new  []newPart // decoded parts that may be shared with later objects
}

// newPart is a part that is not in the cache yet.
type newPart struct {
	field *fieldShape
	run   []byte
	hash  uint64
}

var structDecoders = sync.Pool{New: func() any { return new(structDecoder) }}

// fill decodes a message into a struct. It returns false if that cannot be done field by field.
func (m *partCache) fill(shape *messageShape, to reflect.Value, content, other []byte, like reflect.Value) bool {
	f := structDecoders.Get().(*structDecoder)
	defer f.release()
	f.parts, f.to, f.like = m, to, like
	if like.IsValid() {
		f.others.read(other)
	}
	for len(content) > 0 {
		r, next, ok := nextRun(content)
		if !ok || !f.decodeField(shape, r) {
			return false
		}
		content = next
	}
	if len(f.rest) > 0 && to.Addr().Interface().(message).Unmarshal(f.rest) != nil {
		return false
	}
	for _, p := range f.new {
		m.add(p, to.Field(p.field.index))
	}
	return true
}

// release returns the structDecoder to the pool.
func (f *structDecoder) release() {
	if f.like.IsValid() {
		f.others = spans{}
	}
	f.parts, f.to, f.like, f.seen = nil, reflect.Value{}, reflect.Value{}, 0
	clear(f.new)
	f.rest, f.new = f.rest[:0], f.new[:0]
	structDecoders.Put(f)
}

// decodeField decodes or shares one field of the message. It returns false if the message is unusual.
func (f *structDecoder) decodeField(shape *messageShape, r run) bool {
	field := shape.field(r.number)
	if field == nil {
		f.rest = append(f.rest, r.whole...)
		return true
	}
	if f.seen&(1<<r.number) != 0 {
		return false // the field occurs in several places
	}
	f.seen |= 1 << r.number
	was := f.others.at(r.number)
	switch {
	case was != nil && bytes.Equal(r.whole, was):
		share(f.to.Field(field.index), f.like.Field(field.index))
	case field.inner != nil:
		return f.descend(field, r, was)
	case len(r.whole) < smallPart:
		f.rest = append(f.rest, r.whole...)
	default:
		f.shareOrDecode(field, r)
	}
	return true
}

// descend decodes a message inside the message.
func (f *structDecoder) descend(field *fieldShape, r run, was []byte) bool {
	content := onlyValue(r.whole)
	if content == nil {
		return false
	}
	var before []byte
	var like reflect.Value
	if was != nil {
		before, like = onlyValue(was), f.like.Field(field.index)
	}
	return f.parts.fill(field.inner, f.to.Field(field.index), content, before, like)
}

// shareOrDecode shares a part that was decoded before, or leaves it to the generated code.
func (f *structDecoder) shareOrDecode(field *fieldShape, r run) {
	known, hash := f.parts.find(field, r.whole)
	if known.IsValid() {
		share(f.to.Field(field.index), known)
		return
	}
	f.rest = append(f.rest, r.whole...)
	f.new = append(f.new, newPart{field: field, run: r.whole, hash: hash})
}

// share sets a field to the value of another object's field. Appending to a slice of it copies it first.
func share(to, from reflect.Value) {
	to.Set(from)
	if to.Kind() == reflect.Slice {
		to.SetCap(to.Len())
	}
}
