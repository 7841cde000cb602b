package ownership

import (
	"reflect"
	"slices"
)

// A new object has no other to be compared with. What is in it is written down as a set right away, which takes two
// thirds of the time of a comparison with an empty object, and comes to the same.

// writer appends the set of the paths of a value to a text. It is odd where a comparison would be.
type writer struct {
	*comparison
	set []byte
}

// fresh writes the set of all that is in a struct: nothing if nothing is. ok is false if a comparison must find out.
func (c *comparison) fresh(s *shape, v reflect.Value) (set []byte, ok bool) {
	c.reset()
	c.strict, c.scratch, c.keys = false, c.scratch[:0], c.keys[:0]
	w := writer{c, c.set[:0]}
	if !w.fields(s, v, true, false) {
		return nil, !c.odd
	}
	c.set = w.set[:0]
	return w.set, !c.odd
}

// fields writes the fields of a struct between braces, which have been begun or not, and tells whether there are any.
// In a struct that has always been there (zero), so have some of its fields; in others all are new.
func (w *writer) fields(s *shape, v reflect.Value, zero, begun bool) bool {
	for i := range s.fields {
		f := &s.fields[i]
		value, is := f.of(v, present)
		if is == absent {
			continue
		}
		mark := len(w.set)
		w.name(fieldStep, f.name, begun)
		if !w.field(f, value, is, zero) {
			w.set = w.set[:mark]
			continue
		}
		begun = true
	}
	w.end(begun)
	return begun
}

// name begins a step. The first one opens the braces of all.
func (w *writer) name(kind step, name string, more bool) {
	if more {
		w.set = append(w.set, ',')
	} else {
		w.set = append(w.set, '{')
	}
	w.set = append(w.set, '"', byte(kind), ':')
	w.set = append(w.set, name...)
	w.set = append(w.set, '"', ':')
}

// end closes the braces of steps, if there have been any.
func (w *writer) end(begun bool) {
	if begun {
		w.set = append(w.set, '}')
	}
}

// field writes what is behind a field's name, and tells whether the field is new.
func (w *writer) field(f *field, v reflect.Value, is state, zero bool) bool {
	s := f.shape
	if !zero || f.omitZero || f.omitEmpty && (s.pointer || v.Kind() != reflect.Struct) {
		w.value(s, v, is)
		return true
	}
	if is == null {
		w.odd = w.odd || s.form == opaque
		return false
	}
	nothing := s.pointer || s.form == list || s.form == mapping || s.form == data // is what a zero struct has there
	switch {
	case s.leaf || w.bare(s, v, is):
		return w.differs(s, v, nothing)
	case s.form == structure && !nothing:
		return w.fields(s, v, true, false)
	}
	w.parts(s, v, false)
	return true
}

// differs compares a whole with what a zero struct has in its place.
func (w *writer) differs(s *shape, v reflect.Value, nothing bool) bool {
	if s.form == opaque || nothing && s.form != list {
		w.odd = true
		return false
	}
	if !nothing && w.same(s, reflect.Zero(v.Type()), v) {
		return false
	}
	w.set = append(w.set, "{}"...)
	return true
}

// value writes the set of a value that is new: the value itself, and its parts.
func (w *writer) value(s *shape, v reflect.Value, is state) {
	w.odd = w.odd || s.form == opaque
	if s.leaf || w.bare(s, v, is) || w.odd {
		w.set = append(w.set, "{}"...)
		return
	}
	w.set = append(w.set, `{".":{}`...)
	w.parts(s, v, true)
}

// parts writes the sets of the parts of a value, of which there are some, between braces that have been begun or not.
func (w *writer) parts(s *shape, v reflect.Value, begun bool) {
	switch s.form {
	case structure:
		w.fields(s, v, false, begun)
	case mapping:
		w.mapping(s, v, begun)
	case list:
		w.list(s, v, begun)
	}
}

func (w *writer) mapping(s *shape, v reflect.Value, begun bool) {
	from := len(w.keys)
	w.addKeys(v, present)
	keys := w.keys[from:]
	slices.Sort(keys)
	for i, key := range keys {
		w.odd = w.odd || !ordinary(key)
		w.name(fieldStep, key, begun || i > 0)
		if s.elem.leaf && s.elem.form != opaque {
			w.set = append(w.set, "{}"...)
			continue
		}
		value, is := s.entry(v, present, key)
		w.value(s.elem, value, is)
	}
	w.end(true)
	w.keys = w.keys[:from]
}

func (w *writer) list(s *shape, v reflect.Value, begun bool) {
	if !s.set && s.keys == nil {
		w.odd = true
		return
	}
	from := len(w.scratch)
	w.elements(s, v, present)
	// Elements of lists within come behind; if they move the stack, these stay as they are.
	for i, e := range w.scratch[from:] {
		if w.odd {
			break
		}
		w.name(e.kind, e.name, begun || i > 0)
		w.value(s.elem, e.v, e.is)
	}
	w.end(true)
	w.scratch = w.scratch[:from]
}
