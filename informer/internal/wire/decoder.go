package wire

import (
	"bytes"
	"reflect"
	"sync"
)

// Decoder decodes objects of one type. Most of the work, and of the memory, is in parts that repeat: the containers of
// a replica are those of its siblings, and an update leaves most of an object as it was. A part whose bytes have been
// decoded before is not decoded again: objects share it. So callers must not modify what they get.
type Decoder[T any] struct {
	shape *messageShape // nil: objects of this type are decoded in whole
	parts memo
}

// NewDecoder returns a decoder, which is safe for use by several goroutines.
func NewDecoder[T any]() *Decoder[T] {
	return &Decoder[T]{shape: shapeOf(reflect.TypeFor[T]().Elem(), true)}
}

// Decode returns the object that the bytes encode.
func (d *Decoder[T]) Decode(content []byte) (T, error) {
	return d.decodeWith(content, nil, reflect.Value{})
}

// DecodeLike does the same with the help of another version of the object, in both forms: parts that have not changed
// are taken from it.
func (d *Decoder[T]) DecodeLike(content, other []byte, like T) (T, error) {
	return d.decodeWith(content, other, reflect.ValueOf(like).Elem())
}

func (d *Decoder[T]) decodeWith(content, other []byte, like reflect.Value) (T, error) {
	if d.shape == nil {
		return Decode[T](content)
	}
	object := reflect.New(reflect.TypeFor[T]().Elem())
	if !d.parts.fill(d.shape, object.Elem(), content, other, like) {
		return Decode[T](content) // something is unusual about it: decode it in whole, or return what is wrong
	}
	return object.Interface().(T), nil
}

// filling is a message on its way into a struct.
type filling struct {
	parts  *memo
	to     reflect.Value
	like   reflect.Value // not valid: none
	others spans         // what like was decoded from

	seen uint64    // the fields that have come, as bits
	rest []byte    // what the generated code decodes
	new  []pending // what is in there that might be shared next time
}

// pending is a part that is being decoded for the first time.
type pending struct {
	field *fieldShape
	run   []byte
	hash  uint64
}

var fillings = sync.Pool{New: func() any { return new(filling) }}

// fill decodes a message into a struct. It reports false if that cannot be done field by field.
func (m *memo) fill(shape *messageShape, to reflect.Value, content, other []byte, like reflect.Value) bool {
	f := fillings.Get().(*filling)
	defer f.release()
	f.parts, f.to, f.like = m, to, like
	if like.IsValid() {
		f.others.read(other)
	}
	for len(content) > 0 {
		r, next, ok := nextRun(content)
		if !ok || !f.take(shape, r) {
			return false
		}
		content = next
	}
	if len(f.rest) > 0 && to.Addr().Interface().(message).Unmarshal(f.rest) != nil {
		return false
	}
	for _, p := range f.new {
		m.offer(p, to.Field(p.field.index))
	}
	return true
}

// release returns the filling to the pool.
func (f *filling) release() {
	if f.like.IsValid() {
		f.others = spans{}
	}
	f.parts, f.to, f.like, f.seen = nil, reflect.Value{}, reflect.Value{}, 0
	clear(f.new)
	f.rest, f.new = f.rest[:0], f.new[:0]
	fillings.Put(f)
}

// take finds a place for one run of the message.
func (f *filling) take(shape *messageShape, r run) bool {
	field := shape.field(r.number)
	if field == nil {
		f.rest = append(f.rest, r.whole...)
		return true
	}
	if f.seen&(1<<r.number) != 0 {
		return false // it comes in pieces
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
		f.look(field, r)
	}
	return true
}

// descend fills a message within the message.
func (f *filling) descend(field *fieldShape, r run, was []byte) bool {
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

// look takes over a part that was decoded before, or leaves it to the generated code.
func (f *filling) look(field *fieldShape, r run) {
	known, hash := f.parts.find(field, r.whole)
	if known.IsValid() {
		share(f.to.Field(field.index), known)
		return
	}
	f.rest = append(f.rest, r.whole...)
	f.new = append(f.new, pending{field: field, run: r.whole, hash: hash})
}

// share makes a field's value that of another object. Appending to a slice of it copies it first.
func share(to, from reflect.Value) {
	to.Set(from)
	if to.Kind() == reflect.Slice {
		to.SetCap(to.Len())
	}
}
