package ownership

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// shape says how values of a Go type look in JSON and how they are owned. It is made once for each type.
type shape struct {
	form form
	// leaf says that values are owned as a whole.
	leaf bool
	// pointer says that values are behind a pointer.
	pointer bool
	fields  []field // of a structure, by name
	elem    *shape  // of a list or a mapping
	keys    []int   // of a keyed list: which of the element's fields tell elements apart
	set     bool    // of a list: elements are told apart by their values
}

// form is what a value is in Go.
type form uint8

const (
	opaque form = iota // not known here: the library must look at it
	truth
	integer
	natural
	float
	text
	data // []byte
	timestamp
	microTime
	quantity
	intOrString
	duration
	structure
	list
	mapping
)

// field is a part of a structure.
type field struct {
	name                string
	index               []int
	omitEmpty, omitZero bool
	shape               *shape
}

// shapes makes shapes, each once.
type shapes map[reflect.Type]*shape

// known are the shapes of all types so far. Types are the same for everybody.
var known = struct {
	sync.Mutex
	shapes shapes
}{shapes: shapes{}}

func shapeOf(t reflect.Type) *shape {
	known.Lock()
	defer known.Unlock()
	return known.shapes.of(t)
}

var leaves = map[reflect.Type]form{
	reflect.TypeFor[metav1.Time]():        timestamp,
	reflect.TypeFor[metav1.MicroTime]():   microTime,
	reflect.TypeFor[resource.Quantity]():  quantity,
	reflect.TypeFor[intstr.IntOrString](): intOrString,
	reflect.TypeFor[metav1.Duration]():    duration,
}

// of is the shape of a type that is owned as most of its form are.
func (s shapes) of(t reflect.Type) *shape {
	if known, ok := s[t]; ok {
		return known
	}
	out := &shape{}
	s[t] = out // before its parts, which may be of the same type
	s.fill(out, t)
	return out
}

func (s shapes) fill(out *shape, t reflect.Type) {
	if t.Kind() == reflect.Pointer {
		*out = *s.of(t.Elem())
		if out.pointer {
			*out = shape{leaf: true}
			return
		}
		out.pointer = true
		return
	}
	if f, ok := leaves[t]; ok {
		out.form, out.leaf = f, true
		return
	}
	switch t.Kind() {
	case reflect.Bool:
		out.form, out.leaf = truth, true
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		out.form, out.leaf = integer, true
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uint:
		out.form, out.leaf = natural, true
	case reflect.Float32, reflect.Float64:
		out.form, out.leaf = float, true
	case reflect.String:
		out.form, out.leaf = text, true
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			out.form, out.leaf = data, true
			return
		}
		out.form, out.leaf, out.elem = list, true, s.of(t.Elem())
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			out.form, out.elem = mapping, s.of(t.Elem())
			return
		}
		out.leaf = true
	case reflect.Struct:
		s.fillStructure(out, t)
	default:
		out.leaf = true
	}
}

func (s shapes) fillStructure(out *shape, t reflect.Type) {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()) {
		out.leaf = true
		return
	}
	about := topologies()[modelName(t)]
	out.form, out.leaf = structure, about.atomic
	s.addFields(out, t, nil, about)
	slices.SortFunc(out.fields, func(a, b field) int { return cmp.Compare(a.name, b.name) })
}

func (s shapes) addFields(out *shape, t reflect.Type, index []int, about topology) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		at := append(slices.Clone(index), i)
		switch {
		case name == "-" || !f.IsExported():
		case name == "" && f.Type.Kind() == reflect.Struct && (f.Anonymous || strings.Contains(options, "inline")):
			s.addFields(out, f.Type, at, about)
		case name == "":
			out.form, out.leaf = opaque, true // nothing of the kind exists in the API
		default:
			part := field{name: name, index: at, omitEmpty: strings.Contains(options, "omitempty"),
				omitZero: strings.Contains(options, "omitzero"), shape: s.related(f.Type, about.fields[name])}
			out.fields = append(out.fields, part)
		}
	}
}

// related is the shape of a type where it is owned in a way of its own.
func (s shapes) related(t reflect.Type, r relation) *shape {
	plain := s.of(t)
	if !r.atomic && !r.granular && !r.set && r.keys == nil {
		return plain
	}
	out := *plain
	out.leaf = r.atomic
	switch {
	case r.set:
		out.set = true
	case r.keys != nil:
		for _, key := range r.keys {
			i := slices.IndexFunc(out.elem.fields, func(f field) bool { return f.name == key })
			if i < 0 || out.elem.leaf && out.elem.form != structure {
				return &shape{leaf: true}
			}
			out.keys = append(out.keys, i)
		}
	}
	return &out
}

// without is the shape less a field, or less a field of a field.
func (s *shape) without(path ...string) *shape {
	out := *s
	i := slices.IndexFunc(s.fields, func(f field) bool { return f.name == path[0] })
	if i < 0 {
		return s
	}
	out.fields = slices.Clone(s.fields)
	if len(path) == 1 {
		out.fields = slices.Delete(out.fields, i, i+1)
	} else {
		out.fields[i].shape = out.fields[i].shape.without(path[1:]...)
	}
	return &out
}

// empty tells values that omitempty leaves out.
func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String, reflect.Slice, reflect.Map, reflect.Array:
		return v.Len() == 0
	case reflect.Pointer, reflect.Interface:
		return v.IsNil()
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

// zero tells values that omitzero leaves out.
func zero(v reflect.Value) bool {
	if z, ok := v.Interface().(interface{ IsZero() bool }); ok && (v.Kind() != reflect.Pointer || !v.IsNil()) {
		return z.IsZero()
	}
	if v.CanAddr() {
		if z, ok := v.Addr().Interface().(interface{ IsZero() bool }); ok {
			return z.IsZero()
		}
	}
	return v.IsZero()
}
