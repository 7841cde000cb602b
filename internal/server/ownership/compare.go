package ownership

import (
	"reflect"

	"github.com/millrace/millrace/internal/server/resource/alike"
)

// comparison finds the paths at which two objects of one type differ, as the library finds them.
type comparison struct {
	paths
	// changed has what is new or other in the second object, gone what only the first has.
	changed, gone ref
	lost          bool // there are nodes that are gone
	// strict says that values are part of a list that is compared as such. There the library compares Go values, so
	// that what is the same in JSON need not be the same for it.
	strict bool

	scratch []element // a stack of the elements of lists
	items   []item    // the same of trees
	keys    []string  // a stack of the keys of maps
	text    []byte
	set     []byte
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
	for i := range s.fields {
		f := &s.fields[i]
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
func (c *comparison) child(kind step, name string, s *shape, p pair, to ref, last *ref) {
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
	for i := range s.fields {
		f := &s.fields[i]
		var q pair
		q.l, q.ls = f.of(p.l, p.ls)
		q.r, q.rs = f.of(p.r, p.rs)
		if q.ls == absent && q.rs == absent {
			continue
		}
		if f.shape.form == structure && q.ls == present && q.rs == present && q.l.CanAddr() && q.r.CanAddr() && alike.Identical(q.l, q.r) {
			continue // as most of an object is, most of the time
		}
		if f.shape.leaf && f.shape.form != opaque && q.ls == present && q.rs == present && c.same(f.shape, q.l, q.r) {
			continue
		}
		c.child(fieldStep, f.name, f.shape, q, to, &last)
	}
}
