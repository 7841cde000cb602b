package ownership

import (
	"reflect"
	"slices"
)

// copier copies the values of a configuration to their places in an object, which must all be there, and writes down
// the set of the fields that it meets as the library does for what is applied.
type copier struct {
	writer
}

// copyAll copies a configuration, which is given both as it was sent and in its Go type. It tells false if that is not
// all that there is to do: if the set of the fields is not the given one, or some of them are not simply there.
func (c *comparison) copyAll(s *shape, content map[string]any, from, to reflect.Value, set string) bool {
	c.reset()
	c.scratch, c.keys = c.scratch[:0], c.keys[:0]
	w := copier{writer{c, c.set[:0]}}
	w.structure(s, content, from, to, false)
	c.set = w.set[:0]
	return !c.odd && string(w.set) == set
}

func (c *copier) structure(s *shape, content map[string]any, from, to reflect.Value, begun bool) {
	known := 0
	for i := range s.fields {
		f := &s.fields[i]
		value, given := content[f.name]
		if !given {
			continue
		}
		known++
		c.name(fieldStep, f.name, begun || known > 1)
		c.value(f.shape, value, from.FieldByIndex(f.index), to.FieldByIndex(f.index), false)
	}
	c.odd = c.odd || known == 0 && !begun || known < len(content)
	c.end(true)
}

// value copies one value. An element of a list is itself in the set, and not only its parts.
func (c *copier) value(s *shape, value any, from, to reflect.Value, element bool) {
	if c.odd {
		return
	}
	if s.leaf {
		c.odd = c.odd || value == nil || s.form == opaque
		c.set = append(c.set, "{}"...)
		to.Set(from)
		return
	}
	from, is := s.deref(from)
	to, was := s.deref(to)
	if is != present || was != present {
		c.odd = true
		return
	}
	switch tree := value.(type) {
	case map[string]any:
		if element {
			c.set = append(c.set, `{".":{}`...)
		}
		if s.form == structure {
			c.structure(s, tree, from, to, element)
			return
		}
		c.odd = c.odd || s.form != mapping || element
		c.mapping(s, tree, from, to)
	case []any:
		c.odd = c.odd || s.form != list || element
		c.list(s, tree, from, to)
	default:
		c.odd = true
	}
}

func (c *copier) mapping(s *shape, content map[string]any, from, to reflect.Value) {
	if c.odd || len(content) == 0 || !s.elem.leaf || s.elem.form == opaque {
		c.odd = true
		return
	}
	names := make([]string, 0, len(content))
	for name, value := range content {
		c.odd = c.odd || value == nil || !ordinary(name)
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		c.name(fieldStep, name, i > 0)
		c.set = append(c.set, "{}"...)
		key := reflect.ValueOf(name).Convert(to.Type().Key())
		value := from.MapIndex(key)
		if !value.IsValid() || !to.MapIndex(key).IsValid() {
			c.odd = true
			return
		}
		to.SetMapIndex(key, value)
	}
	c.end(true)
}

// match is an element of a configuration's list, and where it is in the object's.
type match struct {
	element
	value    any
	from, to reflect.Value
}

// list copies elements to those of the same names. There the order is the same, perhaps with others in between.
func (c *copier) list(s *shape, content []any, from, to reflect.Value) {
	if c.odd || len(content) == 0 || len(content) != from.Len() || !s.set && s.keys == nil {
		c.odd = true
		return
	}
	all := make([]match, 0, len(content))
	at := 0
	for i, value := range content {
		m := match{value: value, from: from.Index(i)}
		m.kind, m.name = c.named(s, m.from)
		for ; at < to.Len(); at++ {
			if _, name := c.named(s, to.Index(at)); name == m.name {
				m.to = to.Index(at)
				at++
				break
			}
		}
		if c.odd || value == nil || !m.to.IsValid() {
			c.odd = true
			return
		}
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b match) int { return c.compareNames(a.kind, a.name, b.name) })
	for i, m := range all {
		c.odd = c.odd || i > 0 && all[i-1].name == m.name
		c.name(m.kind, m.name, i > 0)
		c.value(s.elem, m.value, m.from, m.to, true)
	}
	c.end(true)
}

// named is what an element is called.
func (c *copier) named(s *shape, v reflect.Value) (kind step, name string) {
	v, is := s.elem.deref(v)
	if is != present {
		c.odd = true
		return 0, ""
	}
	c.text = c.text[:0]
	if s.set {
		c.valueName(s.elem, v)
		return valueStep, string(c.text)
	}
	c.keyName(s, v)
	return keyStep, string(c.text)
}
