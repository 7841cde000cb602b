package ownership

import (
	"bytes"
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

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
	for i := range s.fields {
		f := &s.fields[i]
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
