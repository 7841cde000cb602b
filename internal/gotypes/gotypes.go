// Package gotypes is what all share that read or write values of Go types by a plan: how their fields are called in JSON,
// which types have a form of their own, and the plans themselves, each made once (Set).
//
// It says what encoding/json would see, and decides nothing: whether a field without a name, a type with a form of its
// own or an option is covered, is for the one who asks.
package gotypes

import (
	"encoding"
	"encoding/json"
	"iter"
	"reflect"
	"strings"
)

// Field is a field of a struct, and what its tag says about JSON.
type Field struct {
	reflect.StructField
	// JSON is the name in the tag; empty if it has none.
	JSON string
	// Inlined says that it has no name and is embedded, or that its tag says so as Kubernetes' tags do: if it is a struct,
	// its fields are members of the outer one.
	Inlined bool
	// Hidden says that encoding/json does not see it.
	Hidden bool

	OmitEmpty, OmitZero bool
	// Others are further options, but for "inline".
	Others []string
}

// FieldOf reads a field's tag.
func FieldOf(f reflect.StructField) Field {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	out := Field{StructField: f, JSON: name, Hidden: f.Tag.Get("json") == "-" || !f.IsExported() && !embedsStruct(f)}
	inline := false
	for o := range strings.SplitSeq(options, ",") {
		switch o {
		case "":
		case "inline":
			inline = true
		case "omitempty":
			out.OmitEmpty = true
		case "omitzero":
			out.OmitZero = true
		default:
			out.Others = append(out.Others, o)
		}
	}
	out.Inlined = name == "" && (f.Anonymous || inline)
	return out
}

func embedsStruct(f reflect.StructField) bool {
	return f.Anonymous && (f.Type.Kind() == reflect.Struct || f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() == reflect.Struct)
}

// Fields are those of a struct that encoding/json sees, in their order. Those of an inlined struct are not among them.
func Fields(t reflect.Type) iter.Seq[Field] {
	return func(yield func(Field) bool) {
		for i := range t.NumField() {
			if f := FieldOf(t.Field(i)); !f.Hidden && !yield(f) {
				return
			}
		}
	}
}

// FieldNamed is the field of a struct with a name in JSON.
func FieldNamed(t reflect.Type, name string) (Field, bool) {
	for f := range Fields(t) {
		if f.JSON == name {
			return f, true
		}
	}
	return Field{}, false
}

var (
	marshaler       = reflect.TypeFor[json.Marshaler]()
	unmarshaler     = reflect.TypeFor[json.Unmarshaler]()
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// MarshalsJSON, UnmarshalsJSON, MarshalsText and UnmarshalsText say whether a type, or a pointer to it, has the method.
func MarshalsJSON(t reflect.Type) bool { return has(t, marshaler) }

// UnmarshalsJSON: see MarshalsJSON.
func UnmarshalsJSON(t reflect.Type) bool { return has(t, unmarshaler) }

// MarshalsText: see MarshalsJSON.
func MarshalsText(t reflect.Type) bool { return has(t, textMarshaler) }

// UnmarshalsText: see MarshalsJSON.
func UnmarshalsText(t reflect.Type) bool { return has(t, textUnmarshaler) }

func has(t, method reflect.Type) bool {
	return t.Implements(method) || reflect.PointerTo(t).Implements(method)
}

// ModelName is what Kubernetes' API documents call a type; empty if the type does not say.
func ModelName(t reflect.Type) string {
	if m, ok := reflect.Zero(t).Interface().(interface{ OpenAPIModelName() string }); ok {
		return m.OpenAPIModelName()
	}
	return ""
}

// Contains reports whether is finds something in a value or in one of those in it. It is not asked about what is in a
// value of which it says that it is whole.
func Contains(v reflect.Value, is func(reflect.Value) (found, whole bool)) bool {
	if found, whole := is(v); found || whole {
		return found
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return !v.IsNil() && Contains(v.Elem(), is)
	case reflect.Struct:
		for i := range v.NumField() {
			if Contains(v.Field(i), is) {
				return true
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if Contains(v.Index(i), is) {
				return true
			}
		}
	case reflect.Map:
		for each := v.MapRange(); each.Next(); {
			if Contains(each.Value(), is) {
				return true
			}
		}
	}
	return false
}
