package state

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace/millrace/informer/internal/wire"
	"github.com/millrace/millrace/internal/protobuf"
)

// FieldPath is the path to a field of an object, such as spec.nodeName. It is resolved once for a Go type, and then
// read from both decoded and encoded objects: an index over a field never decodes anything.
type FieldPath struct {
	names    []string
	fields   []int // the fields' indexes in their structs
	numbers  []int // the numbers of the same fields in protobuf
	repeated bool  // the path leads through a list, so there may be any number of values
}

// ResolvePath resolves a path against a type.
func ResolvePath(t reflect.Type, path string) (*FieldPath, error) {
	p := &FieldPath{names: strings.Split(path, ".")}
	if t == reflect.TypeFor[*unstructured.Unstructured]() {
		return p, nil
	}
	for _, name := range p.names {
		t = p.element(t)
		next := p.descend(t, name)
		if next == nil {
			return nil, fmt.Errorf("field path %q: %v has no field %q", path, t, name)
		}
		t = next
	}
	if t = p.element(t); t.Kind() != reflect.String {
		return nil, fmt.Errorf("field path %q leads to a %v, not to a string", path, t)
	}
	return p, nil
}

// element returns the type behind pointers and lists.
func (p *FieldPath) element(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		p.repeated = p.repeated || t.Kind() == reflect.Slice
		t = t.Elem()
	}
	return t
}

// descend returns the type of the field with a JSON name, including fields of inlined structs. It returns nil if there
// is none.
func (p *FieldPath) descend(t reflect.Type, name string) reflect.Type {
	if t.Kind() != reflect.Struct {
		return nil
	}
	for i := range t.NumField() {
		field := t.Field(i)
		tag, rest, _ := strings.Cut(field.Tag.Get("json"), ",")
		inlined := tag == "" && (field.Anonymous || strings.Contains(rest, "inline"))
		if tag != name && !inlined {
			continue
		}
		fields, numbers := p.fields, p.numbers
		p.fields, p.numbers = append(fields, i), append(numbers, int(protobuf.NumberOf(field)))
		if tag == name {
			return field.Type
		}
		if found := p.descend(field.Type, name); found != nil {
			return found
		}
		p.fields, p.numbers = fields, numbers
	}
	return nil
}

// valuesAt returns a version's values for an index over the path. A single field that is not set has the value "".
func valuesAt[T any](p *FieldPath, v *Version[T]) []string {
	var values []string
	switch object := any(v.Plain).(type) {
	case *unstructured.Unstructured:
		values = appendTree(nil, object.Object, p.names)
	default:
		if v.Packed != nil {
			values = wire.Strings(v.Packed, p.numbers)
		} else {
			values = appendStruct(nil, reflect.ValueOf(v.Plain), p.fields)
		}
	}
	if values == nil && !p.repeated {
		return []string{""}
	}
	return values
}

func appendStruct(found []string, v reflect.Value, fields []int) []string {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return found
		}
		v = v.Elem()
	}
	switch {
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			found = appendStruct(found, v.Index(i), fields)
		}
		return found
	case len(fields) == 0:
		return append(found, v.String())
	}
	return appendStruct(found, v.Field(fields[0]), fields[1:])
}

func appendTree(found []string, node any, names []string) []string {
	switch n := node.(type) {
	case []any:
		for _, element := range n {
			found = appendTree(found, element, names)
		}
	case map[string]any:
		if len(names) > 0 {
			return appendTree(found, n[names[0]], names[1:])
		}
	case string:
		if len(names) == 0 {
			return append(found, n)
		}
	}
	return found
}
