package ownership

import (
	"bytes"
	"reflect"
	"slices"
	"strconv"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// comparison finds the paths at which two objects of one type differ, as the library finds them.
type comparison struct {
	paths
	// changed has what is new or other in the second object, gone what only the first has.
	changed, gone ref
	lost          bool // there are nodes that are gone
	// strict says that values are part of a list that is compared as such. There the library compares Go values, so that what
	// is the same in JSON need not be the same for it.
	strict bool

	scratch []element // a stack of the elements of lists
	keys    []string  // a stack of the keys of maps
	text    []byte
}

// state says whether there is a value.
type state uint8

const (
	absent state = iota
	null
	present
)

// pair is what the two objects have at one place.
type pair struct {
	l, r   reflect.Value
	ls, rs state
}

// find compares two structs.
func (c *comparison) find(s *shape, l, r reflect.Value) {
	c.reset()
	c.strict, c.lost, c.scratch, c.keys = false, false, c.scratch[:0], c.keys[:0]
	both := c.root()
	c.structure(s, pair{l, r, present, present}, both)
	c.changed, c.gone = both, c.root()
	if c.lost {
		c.changed, c.gone = c.only(both, false), c.only(both, true)
	}
}

// only makes the set of what is gone, or of what is not.
func (c *comparison) only(r ref, gone bool) ref {
	out := c.add(c.nodes[r].kind, c.nodes[r].name)
	n := &c.nodes[r]
	c.nodes[out].member = gone && n.gone || !gone && n.member
	var last ref
	for child := n.child; child != 0; child = c.nodes[child].next {
		mark := len(c.nodes)
		if part := c.only(child, gone); c.said(part) {
			c.link(out, &last, part)
		} else {
			c.nodes = c.nodes[:mark]
		}
	}
	return out
}

// at compares what is at one place, and notes what differs there and below.
func (c *comparison) at(s *shape, p pair, to ref) {
	if s.leaf || !c.granular(s, p, to) {
		c.whole(s, p, to)
		return
	}
	if p.ls == absent {
		c.nodes[to].member = true
	}
	if p.rs == absent {
		c.nodes[to].gone, c.lost = true, true
	}
}

// whole compares values that are owned as such.
func (c *comparison) whole(s *shape, p pair, to ref) {
	switch {
	case p.ls == absent:
		c.nodes[to].member = true
	case p.rs == absent:
		c.nodes[to].gone, c.lost = true, true
	case p.ls == p.rs && (p.ls == null || c.same(s, p.l, p.r)):
	default:
		c.nodes[to].member = true
		c.odd = c.odd || p.ls != p.rs && s.form != list // some of the library's nothings are the same
	}
	if s.form == opaque {
		c.odd = true
	}
}

// granular compares by parts; false if there are none on either side, which is a difference of the whole.
func (c *comparison) granular(s *shape, p pair, to ref) bool {
	if c.bare(s, p.l, p.ls) && c.bare(s, p.r, p.rs) {
		return false
	}
	switch s.form {
	case structure:
		c.structure(s, p, to)
	case mapping:
		c.mapping(s, p, to)
	case list:
		c.list(s, p, to)
	}
	return true
}

// bare tells whether there is nothing in a value.
func (c *comparison) bare(s *shape, v reflect.Value, is state) bool {
	if is != present {
		return true
	}
	if s.form != structure {
		return v.Len() == 0
	}
	at := base(v)
	for i := range s.fields {
		f := &s.fields[i]
		if f.glance.sees(at) {
			continue
		}
		if _, is := f.of(v, present); is != absent {
			return false
		}
	}
	return true
}

// of finds a field of a struct that is there.
func (f *field) of(v reflect.Value, is state) (reflect.Value, state) {
	if is != present {
		return v, absent
	}
	if len(f.index) == 1 {
		v = v.Field(f.index[0])
	} else {
		v = v.FieldByIndex(f.index)
	}
	if f.omitEmpty && empty(v) || f.omitZero && zero(v) {
		return v, absent
	}
	return f.shape.deref(v)
}

// deref follows a pointer, and tells null from values.
func (s *shape) deref(v reflect.Value) (reflect.Value, state) {
	if s.pointer {
		if v.IsNil() {
			return v, null
		}
		v = v.Elem()
	}
	if (s.form == list || s.form == mapping || s.form == data) && v.IsNil() {
		return v, null
	}
	return v, present
}

// child compares what is at a step further, and keeps its node if there are differences.
func (c *comparison) child(kind byte, name string, s *shape, p pair, to ref, last *ref) {
	at := c.add(kind, name)
	c.at(s, p, at)
	if c.said(at) {
		c.link(to, last, at)
	} else {
		c.nodes = c.nodes[:at]
	}
}

func (c *comparison) said(r ref) bool {
	n := &c.nodes[r]
	return n.member || n.gone || n.child != 0
}

func (c *comparison) structure(s *shape, p pair, to ref) {
	var last ref
	var l, r unsafe.Pointer
	if p.ls == present {
		l = base(p.l)
	}
	if p.rs == present {
		r = base(p.r)
	}
	for i := range s.fields {
		f := &s.fields[i]
		if (p.ls != present || f.glance.sees(l)) && (p.rs != present || f.glance.sees(r)) {
			continue
		}
		var q pair
		q.l, q.ls = f.of(p.l, p.ls)
		q.r, q.rs = f.of(p.r, p.rs)
		if q.ls == absent && q.rs == absent {
			continue
		}
		if f.shape.leaf && f.shape.form != opaque && q.ls == present && q.rs == present && c.same(f.shape, q.l, q.r) {
			continue
		}
		c.child('f', f.name, f.shape, q, to, &last)
	}
}

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
		c.child('f', key, s.elem, q, to, &last)
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
	kind byte
	name string
	end  int // of the name in the text of all names
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
			order = c.compareNames(left[i].kind, left[i].name, right[j].name)
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
		e := element{kind: 'k'}
		e.v, e.is = s.elem.deref(v.Index(i))
		if e.is != present {
			c.odd = true
			return
		}
		if s.set {
			e.kind = 'v'
			c.valueName(s.elem, e.v)
		} else {
			c.keyName(s, e.v)
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
	inOrder := func(a, b element) int { return c.compareNames(a.kind, a.name, b.name) }
	if !slices.IsSortedFunc(all, inOrder) {
		slices.SortFunc(all, inOrder)
	}
	for i := 1; i < len(all); i++ {
		c.odd = c.odd || all[i].name == all[i-1].name
	}
}

func (c *comparison) keyName(s *shape, v reflect.Value) {
	c.text = append(c.text, '{')
	for i, k := range s.keys {
		f := &s.elem.fields[k]
		key, is := f.of(v, present)
		if is != present {
			c.odd = true // a default may stand for it, or it is an error
			return
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

// same tells whether two values that are there are the same in JSON.
func (c *comparison) same(s *shape, l, r reflect.Value) bool {
	switch s.form {
	case truth:
		return l.Bool() == r.Bool()
	case integer:
		return l.Int() == r.Int()
	case natural:
		return l.Uint() == r.Uint()
	case float:
		return l.Float() == r.Float()
	case text:
		return l.String() == r.String()
	case data:
		return bytes.Equal(l.Bytes(), r.Bytes())
	case timestamp:
		a, b := pointerTo[metav1.Time](l), pointerTo[metav1.Time](r)
		return a.Time == b.Time || c.alike(a.IsZero() == b.IsZero() && (a.IsZero() || a.Unix() == b.Unix()))
	case microTime:
		a, b := pointerTo[metav1.MicroTime](l), pointerTo[metav1.MicroTime](r)
		return a.Time == b.Time || c.alike(a.IsZero() == b.IsZero() && (a.IsZero() || a.UnixMicro() == b.UnixMicro()))
	case quantity:
		a, b := pointerTo[resource.Quantity](l), pointerTo[resource.Quantity](r)
		return *a == *b || c.alike(sameQuantity(a, b))
	case intOrString:
		a, b := pointerTo[intstr.IntOrString](l), pointerTo[intstr.IntOrString](r)
		return *a == *b || c.alike(a.Type == b.Type && (a.Type == intstr.Int && a.IntVal == b.IntVal || a.Type == intstr.String && a.StrVal == b.StrVal))
	case duration:
		return *pointerTo[metav1.Duration](l) == *pointerTo[metav1.Duration](r)
	case structure:
		return c.sameStructure(s, l, r)
	case list:
		return c.sameList(s, l, r)
	case mapping:
		return c.sameMapping(s, l, r)
	}
	c.odd = true
	return false
}

// alike is for values that are not the same in Go.
func (c *comparison) alike(inJSON bool) bool {
	c.odd = c.odd || inJSON && c.strict
	return inJSON
}

// pointerTo avoids a copy where the value has an address.
func pointerTo[T any](v reflect.Value) *T {
	if v.CanAddr() {
		return v.Addr().Interface().(*T)
	}
	t := v.Interface().(T)
	return &t
}

func sameQuantity(a, b *resource.Quantity) bool {
	if a.Format == b.Format {
		return a.Cmp(*b) == 0
	}
	return a.String() == b.String()
}

func (c *comparison) sameStructure(s *shape, l, r reflect.Value) bool {
	x, y := base(l), base(r)
	for i := range s.fields {
		f := &s.fields[i]
		if !c.strict && f.glance.sees(x) && f.glance.sees(y) {
			continue
		}
		a, as := f.of(l, present)
		b, bs := f.of(r, present)
		if as != bs || as == present && !c.same(f.shape, a, b) {
			return false
		}
		if as == absent && (a.Kind() == reflect.Slice || a.Kind() == reflect.Map) && a.IsNil() != b.IsNil() {
			c.alike(true)
		}
	}
	return true
}

// surelySame tells whether two lists are the same, without a doubt.
func (c *comparison) surelySame(s *shape, l, r reflect.Value) bool {
	odd := c.odd
	same := c.sameList(s, l, r) && c.odd == odd
	c.odd = odd
	return same
}

func (c *comparison) sameList(s *shape, l, r reflect.Value) bool {
	if l.Len() != r.Len() {
		return false
	}
	if l.Len() > 0 && l.Pointer() == r.Pointer() {
		return true
	}
	strict := c.strict
	c.strict = true
	defer func() { c.strict = strict }()
	for i := range l.Len() {
		a, as := s.elem.deref(l.Index(i))
		b, bs := s.elem.deref(r.Index(i))
		if as != bs || as == present && !c.same(s.elem, a, b) {
			return false
		}
	}
	return true
}

func (c *comparison) sameMapping(s *shape, l, r reflect.Value) bool {
	if l.Len() != r.Len() {
		return false
	}
	if a, ok := l.Interface().(map[string]string); ok {
		b := r.Interface().(map[string]string)
		for k, v := range a {
			if w, has := b[k]; !has || v != w {
				return false
			}
		}
		return true
	}
	for i := l.MapRange(); i.Next(); {
		v := r.MapIndex(i.Key())
		if !v.IsValid() {
			return false
		}
		a, as := s.elem.deref(i.Value())
		b, bs := s.elem.deref(v)
		if as != bs || as == present && !c.same(s.elem, a, b) {
			return false
		}
	}
	return true
}
