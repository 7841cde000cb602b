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
func (pc *partCache) fill(shape *messageShape, to reflect.Value, content, other []byte, like reflect.Value) bool {
	f := structDecoders.Get().(*structDecoder)
	defer f.release()
	f.parts, f.to, f.like = pc, to, like
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
		pc.add(p, to.Field(p.field.index))
	}
	return true
}

// release returns the structDecoder to the pool.
func (s *structDecoder) release() {
	if s.like.IsValid() {
		s.others = spans{}
	}
	s.parts, s.to, s.like, s.seen = nil, reflect.Value{}, reflect.Value{}, 0
	clear(s.new)
	s.rest, s.new = s.rest[:0], s.new[:0]
	structDecoders.Put(s)
}

// decodeField decodes or shares one field of the message. It returns false if the message is unusual.
func (s *structDecoder) decodeField(shape *messageShape, r run) bool {
	field := shape.field(r.number)
	if field == nil {
		s.rest = append(s.rest, r.whole...)
		return true
	}
	if s.seen&(1<<r.number) != 0 {
		return false // the field occurs in several places
	}
	s.seen |= 1 << r.number
	was := s.others.at(r.number)
	switch {
	case was != nil && bytes.Equal(r.whole, was):
		share(s.to.Field(field.index), s.like.Field(field.index))
	case field.inner != nil:
		return s.descend(field, r, was)
	case len(r.whole) < smallPart:
		s.rest = append(s.rest, r.whole...)
	default:
		s.shareOrDecode(field, r)
	}
	return true
}

// descend decodes a message inside the message.
func (s *structDecoder) descend(field *fieldShape, r run, was []byte) bool {
	content := onlyValue(r.whole)
	if content == nil {
		return false
	}
	var before []byte
	var like reflect.Value
	if was != nil {
		before, like = onlyValue(was), s.like.Field(field.index)
	}
	return s.parts.fill(field.inner, s.to.Field(field.index), content, before, like)
}

// shareOrDecode shares a part that was decoded before, or leaves it to the generated code.
func (s *structDecoder) shareOrDecode(field *fieldShape, r run) {
	known, hash := s.parts.find(field, r.whole)
	if known.IsValid() {
		share(s.to.Field(field.index), known)
		return
	}
	s.rest = append(s.rest, r.whole...)
	s.new = append(s.new, newPart{field: field, run: r.whole, hash: hash})
}

// share sets a field to the value of another object's field. Appending to a slice of it copies it first.
func share(to, from reflect.Value) {
	to.Set(from)
	if to.Kind() == reflect.Slice {
		to.SetCap(to.Len())
	}
}
