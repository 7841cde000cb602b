package ownership

import (
	"reflect"
	"slices"
)

// copier copies the values of a configuration to their places in an object, which must all be there, and writes down the set
// of the fields that it meets as the library does for what is applied.
type copier struct {
	writer
}

// copyAll copies a configuration, which is given both as it was sent and in its Go type. It tells false if that is not all
// that there is to do: if the set of the fields is not the given one, or some of them are not simply there.
func (c *comparison) copyAll(s *shape, content map[string]any, from, to reflect.Value, set string) bool {
	c.reset()
	c.scratch, c.keys = c.scratch[:0], c.keys[:0]
	w := copier{writer{c, c.set[:0]}}
	w.structure(s, content, from, to, false)
	c.set = w.set[:0]
	return !c.odd && string(w.set) == set
}

func (w *copier) structure(s *shape, content map[string]any, from, to reflect.Value, begun bool) {
	known := 0
	for i := range s.fields {
		f := &s.fields[i]
		value, given := content[f.name]
		if !given {
			continue
		}
		known++
		w.name(fieldStep, f.name, begun || known > 1)
		w.value(f.shape, value, from.FieldByIndex(f.index), to.FieldByIndex(f.index), false)
	}
	w.odd = w.odd || known == 0 && !begun || known < len(content)
	w.end(true)
}

// value copies one value. An element of a list is itself in the set, and not only its parts.
func (w *copier) value(s *shape, value any, from, to reflect.Value, element bool) {
	if w.odd {
		return
	}
	if s.leaf {
		w.odd = w.odd || value == nil || s.form == opaque
		w.set = append(w.set, "{}"...)
		to.Set(from)
		return
	}
	from, is := s.deref(from)
	to, was := s.deref(to)
	if is != present || was != present {
		w.odd = true
		return
	}
	switch tree := value.(type) {
	case map[string]any:
		if element {
			w.set = append(w.set, `{".":{}`...)
		}
		if s.form == structure {
			w.structure(s, tree, from, to, element)
			return
		}
		w.odd = w.odd || s.form != mapping || element
		w.mapping(s, tree, from, to)
	case []any:
		w.odd = w.odd || s.form != list || element
		w.list(s, tree, from, to)
	default:
		w.odd = true
	}
}

func (w *copier) mapping(s *shape, content map[string]any, from, to reflect.Value) {
	if w.odd || len(content) == 0 || !s.elem.leaf || s.elem.form == opaque {
		w.odd = true
		return
	}
	names := make([]string, 0, len(content))
	for name, value := range content {
		w.odd = w.odd || value == nil || !ordinary(name)
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		w.name(fieldStep, name, i > 0)
		w.set = append(w.set, "{}"...)
		key := reflect.ValueOf(name).Convert(to.Type().Key())
		value := from.MapIndex(key)
		if !value.IsValid() || !to.MapIndex(key).IsValid() {
			w.odd = true
			return
		}
		to.SetMapIndex(key, value)
	}
	w.end(true)
}

// match is an element of a configuration's list, and where it is in the object's.
type match struct {
	element
	value    any
	from, to reflect.Value
}

// list copies elements to those of the same names. There the order is the same, perhaps with others in between.
func (w *copier) list(s *shape, content []any, from, to reflect.Value) {
	if w.odd || len(content) == 0 || len(content) != from.Len() || !s.set && s.keys == nil {
		w.odd = true
		return
	}
	all := make([]match, 0, len(content))
	at := 0
	for i, value := range content {
		m := match{value: value, from: from.Index(i)}
		m.kind, m.name = w.named(s, m.from)
		for ; at < to.Len(); at++ {
			if _, name := w.named(s, to.Index(at)); name == m.name {
				m.to = to.Index(at)
				at++
				break
			}
		}
		if w.odd || value == nil || !m.to.IsValid() {
			w.odd = true
			return
		}
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b match) int { return w.compareNames(a.kind, a.name, b.name) })
	for i, m := range all {
		w.odd = w.odd || i > 0 && all[i-1].name == m.name
		w.name(m.kind, m.name, i > 0)
		w.value(s.elem, m.value, m.from, m.to, true)
	}
	w.end(true)
}

// named is what an element is called.
func (w *copier) named(s *shape, v reflect.Value) (kind step, name string) {
	v, is := s.elem.deref(v)
	if is != present {
		w.odd = true
		return 0, ""
	}
	w.text = w.text[:0]
	if s.set {
		w.valueName(s.elem, v)
		return valueStep, string(w.text)
	}
	w.keyName(s, v)
	return keyStep, string(w.text)
}
