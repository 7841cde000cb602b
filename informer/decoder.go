package informer

import (
	"bytes"
	"reflect"
	"sync"
)

// decoder decodes objects of one type. Most of the work, and of the memory, is in parts that repeat: the containers of
// a replica are those of its siblings, and an update leaves most of an object as it was. A part whose bytes have been
// decoded before is not decoded again: objects share it. (That is allowed because what is handed out is never modified.)
type decoder[T any] struct {
	shape *messageShape // nil: the type does not lend itself to it
	parts memo
}

func newDecoder[T Object]() *decoder[T] {
	return &decoder[T]{shape: shapeOf(reflect.TypeFor[T]().Elem(), true)}
}

// decode returns the object that the bytes encode.
func (d *decoder[T]) decode(content []byte) (T, error) {
	return d.decodeWith(content, nil, reflect.Value{})
}

// decodeLike does the same with the help of another version, given encoded and decoded: it is likely to share most
// parts.
func (d *decoder[T]) decodeLike(content, other []byte, like T) (T, error) {
	return d.decodeWith(content, other, reflect.ValueOf(like).Elem())
}

func (d *decoder[T]) decodeWith(content, other []byte, like reflect.Value) (T, error) {
	if d.shape == nil {
		return decodeInto[T](content)
	}
	object := reflect.New(reflect.TypeFor[T]().Elem())
	if !d.parts.fill(d.shape, object.Elem(), content, other, like) {
		return decodeInto[T](content) // there is something odd about it: in whole it will do, or say what is wrong
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
	rest []byte    // what is left to the generated code
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
	if len(f.rest) > 0 && to.Addr().Interface().(protobuf).Unmarshal(f.rest) != nil {
		return false
	}
	for _, p := range f.new {
		m.offer(p, to.Field(p.field.index))
	}
	return true
}

// release lets somebody else use the room that the filling took.
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

// look takes over a part that is known.
func (f *filling) look(field *fieldShape, r run) {
	known, hash := f.parts.find(field, r.whole)
	if known.IsValid() {
		share(f.to.Field(field.index), known)
		return
	}
	f.rest = append(f.rest, r.whole...)
	f.new = append(f.new, pending{field: field, run: r.whole, hash: hash})
}

// share makes a field's value that of another object. Who appends to a list of it gets a copy.
func share(to, from reflect.Value) {
	to.Set(from)
	if to.Kind() == reflect.Slice {
		to.SetCap(to.Len())
	}
}
