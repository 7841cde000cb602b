package ownership

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
)

func (c *comparison) mapping(s *shape, p pair, to ref) {
	from := len(c.keys)
	c.addKeys(p.r, p.rs)
	if p.rs != present {
		c.addKeys(p.l, p.ls)
	} else if p.ls == present && !c.sameKeys(p) {
		c.addKeys(p.l, p.ls)
	}
	keys := c.keys[from:]
	slices.Sort(keys)
	keys = slices.Compact(keys)
	var last ref
	for _, key := range keys {
		if !ordinary(key) {
			c.odd = true
		}
		q := p
		// What one side lacks altogether need not be looked up in the other, if it is owned as a whole.
		if !s.elem.leaf || p.ls == present && p.rs == present {
			q.l, q.ls = s.entry(p.l, p.ls, key)
			q.r, q.rs = s.entry(p.r, p.rs, key)
		} else if q.ls != present {
			q.ls = absent
		} else {
			q.rs = absent
		}
		c.child(fieldStep, key, s.elem, q, to, &last)
	}
	c.keys = c.keys[:from]
}

// sameKeys tells whether two maps have the same keys.
func (c *comparison) sameKeys(p pair) bool {
	if p.l.Len() != p.r.Len() {
		return false
	}
	for i := p.l.MapRange(); i.Next(); {
		if !p.r.MapIndex(i.Key()).IsValid() {
			return false
		}
	}
	return true
}

func (c *comparison) addKeys(m reflect.Value, is state) {
	if is != present {
		return
	}
	if plain, ok := m.Interface().(map[string]string); ok {
		for k := range plain {
			c.keys = append(c.keys, k)
		}
		return
	}
	for i := m.MapRange(); i.Next(); {
		c.keys = append(c.keys, i.Key().String())
	}
}

// entry finds a mapping's value.
func (s *shape) entry(m reflect.Value, is state, key string) (reflect.Value, state) {
	if is != present {
		return m, absent
	}
	if plain, ok := m.Interface().(map[string]string); ok {
		v, has := plain[key]
		if !has {
			return m, absent
		}
		return reflect.ValueOf(v), present
	}
	k := reflect.ValueOf(key)
	if t := m.Type().Key(); t != k.Type() {
		k = k.Convert(t)
	}
	v := m.MapIndex(k)
	if !v.IsValid() {
		return v, absent
	}
	return s.elem.deref(v)
}

// element is one element of a list that is told from others by a name.
type element struct {
	kind step
	name string
	key  string // the value of the only key, where there is one and it is a text: what the order of names comes to
	end  int    // of the name in the text of all names
	v    reflect.Value
	is   state
}

func (c *comparison) list(s *shape, p pair, to ref) {
	if !s.set && s.keys == nil {
		c.odd = true
		return
	}
	if p.ls == present && p.rs == present && c.surelySame(s, p.l, p.r) {
		return
	}
	from := len(c.scratch)
	c.elements(s, p.l, p.ls)
	middle := len(c.scratch)
	c.elements(s, p.r, p.rs)
	// Elements of lists within come behind; if they move the stack, these parts stay as they are.
	left, right := c.scratch[from:middle], c.scratch[middle:]
	defer func() { c.scratch = c.scratch[:from] }()
	var last ref
	for i, j := 0, 0; (i < len(left) || j < len(right)) && !c.odd; {
		order := 0
		switch {
		case j == len(right):
			order = -1
		case i == len(left):
			order = 1
		default:
			order = c.order(s, &left[i], &right[j])
		}
		var e element
		var q pair
		if order <= 0 {
			e = left[i]
			q.l, q.ls = e.v, e.is
			i++
		}
		if order >= 0 {
			e = right[j]
			q.r, q.rs = e.v, e.is
			j++
		}
		c.child(e.kind, e.name, s.elem, q, to, &last)
	}
}

// elements names the elements of a list and puts them on the stack, ordered by name. Duplicates are for the library.
func (c *comparison) elements(s *shape, v reflect.Value, is state) {
	if is != present {
		return
	}
	from := len(c.scratch)
	c.text = c.text[:0]
	for i := range v.Len() {
		e := element{kind: keyStep}
		e.v, e.is = s.elem.deref(v.Index(i))
		if e.is != present {
			c.odd = true
			return
		}
		if s.set {
			e.kind = valueStep
			c.valueName(s.elem, e.v)
		} else {
			c.keyName(s, e.v)
			if s.named() && !c.odd {
				key, _ := s.elem.fields[s.keys[0]].of(e.v, present)
				e.key = key.String()
			}
		}
		e.end = len(c.text)
		c.scratch = append(c.scratch, e)
	}
	names, start := string(c.text), 0 // one text for all, cut into pieces
	for i := from; i < len(c.scratch); i++ {
		e := &c.scratch[i]
		e.name, start = names[start:e.end], e.end
	}
	all := c.scratch[from:]
	inOrder := func(a, b element) int { return c.order(s, &a, &b) }
	if !slices.IsSortedFunc(all, inOrder) {
		slices.SortFunc(all, inOrder)
	}
	for i := 1; i < len(all); i++ {
		c.odd = c.odd || all[i].name == all[i-1].name
	}
}

// named tells lists whose elements have one key, which is a text.
func (s *shape) named() bool {
	return len(s.keys) == 1 && s.elem.fields[s.keys[0]].shape.form == text
}

func (c *comparison) order(s *shape, a, b *element) int {
	if s.named() {
		return strings.Compare(a.key, b.key)
	}
	return c.compareNames(a.kind, a.name, b.name)
}

// tcp is the default of the one key that has a default.
var tcp = reflect.ValueOf("TCP")

func (c *comparison) keyName(s *shape, v reflect.Value) {
	c.text = append(c.text, '{')
	for i, k := range s.keys {
		f := &s.elem.fields[k]
		key, is := f.of(v, present)
		if is != present {
			if f.name != "protocol" {
				c.odd = true // it is an error
				return
			}
			key = tcp
		}
		if i > 0 {
			c.text = append(c.text, ',')
		}
		c.text = append(c.text, quote...)
		c.text = append(c.text, f.name...)
		c.text = append(c.text, quote+":"...)
		c.valueName(f.shape, key)
	}
	c.text = append(c.text, '}')
}

func (c *comparison) valueName(s *shape, v reflect.Value) {
	switch s.form {
	case text:
		if !ordinary(v.String()) {
			c.odd = true
		}
		c.text = append(c.text, quote...)
		c.text = append(c.text, v.String()...)
		c.text = append(c.text, quote...)
	case integer:
		c.text = strconv.AppendInt(c.text, v.Int(), 10)
	default:
		c.odd = true
	}
}
