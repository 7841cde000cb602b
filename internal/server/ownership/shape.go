package ownership

import (
	"cmp"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/millrace/millrace/internal/gotypes"
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

// shapes are those of all types so far. Types are the same for everybody.
var shapes = gotypes.New(fill)

func shapeOf(t reflect.Type) *shape { return shapes.Of(t) }

// finder is the shape of another type, which is owned as most of its form are.
type finder = func(reflect.Type) *shape

var leaves = map[reflect.Type]form{
	reflect.TypeFor[metav1.Time]():        timestamp,
	reflect.TypeFor[metav1.MicroTime]():   microTime,
	reflect.TypeFor[resource.Quantity]():  quantity,
	reflect.TypeFor[intstr.IntOrString](): intOrString,
	reflect.TypeFor[metav1.Duration]():    duration,
}

func fill(out *shape, t reflect.Type, of finder) {
	if t.Kind() == reflect.Pointer {
		*out = *of(t.Elem())
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
		out.form, out.leaf, out.elem = list, true, of(t.Elem())
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			out.form, out.elem = mapping, of(t.Elem())
			return
		}
		out.leaf = true
	case reflect.Struct:
		out.fillStructure(t, of)
	default:
		out.leaf = true
	}
}

func (s *shape) fillStructure(t reflect.Type, of finder) {
	if gotypes.MarshalsJSON(t) {
		s.leaf = true
		return
	}
	about := topologies()[gotypes.ModelName(t)]
	s.form, s.leaf = structure, about.atomic
	s.addFields(t, nil, about, of)
	slices.SortFunc(s.fields, func(a, b field) int { return cmp.Compare(a.name, b.name) })
}

func (s *shape) addFields(t reflect.Type, index []int, about topology, of finder) {
	for f := range gotypes.Fields(t) {
		at := append(slices.Clone(index), f.Index[0])
		switch {
		case f.Inlined && f.Type.Kind() == reflect.Struct:
			s.addFields(f.Type, at, about, of)
		case f.JSON == "":
			s.form, s.leaf = opaque, true // nothing of the kind exists in the API
		default:
			related := of(f.Type).related(about.fields[f.JSON])
			s.fields = append(s.fields, field{f.JSON, at, f.OmitEmpty, f.OmitZero, related})
		}
	}
}

// related is the shape of a type where it is owned in a way of its own.
func (s *shape) related(r relation) *shape {
	if !r.atomic && !r.granular && !r.set && r.keys == nil {
		return s
	}
	out := *s
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
