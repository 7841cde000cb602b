package informer

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// fieldPath leads to a field of an object, such as spec.nodeName. It is resolved once, against the Go type, and then
// followed in decoded objects and in encoded ones alike: an index over a field never decodes anything.
type fieldPath struct {
	names    []string
	steps    []fieldStep
	repeated bool // there may be any number of values: a list is passed on the way
}

// fieldStep goes from a struct to one of its fields.
type fieldStep struct {
	index  int // among the struct's fields
	number int // in protobuf; zero: not in protobuf
}

// pathFor resolves a path against a type.
func pathFor(t reflect.Type, path string) (*fieldPath, error) {
	p := &fieldPath{names: strings.Split(path, ".")}
	if t == reflect.TypeFor[*unstructured.Unstructured]() {
		return p, nil
	}
	for _, name := range p.names {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			p.repeated = p.repeated || t.Kind() == reflect.Slice
			t = t.Elem()
		}
		steps, next := stepTo(t, name)
		if next == nil {
			return nil, fmt.Errorf("field path %q: %v has no field %q", path, t, name)
		}
		p.steps = append(p.steps, steps...)
		t = next
	}
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		p.repeated = p.repeated || t.Kind() == reflect.Slice
		t = t.Elem()
	}
	if t.Kind() != reflect.String {
		return nil, fmt.Errorf("field path %q leads to a %v, not to a string", path, t)
	}
	return p, nil
}

// stepTo finds a field by its JSON name, also where it is inlined.
func stepTo(t reflect.Type, name string) ([]fieldStep, reflect.Type) {
	if t.Kind() != reflect.Struct {
		return nil, nil
	}
	for i := range t.NumField() {
		field := t.Field(i)
		tag, rest, _ := strings.Cut(field.Tag.Get("json"), ",")
		step := fieldStep{index: i, number: wireNumber(field)}
		if tag == name {
			return []fieldStep{step}, field.Type
		}
		if tag == "" && (field.Anonymous || strings.Contains(rest, "inline")) {
			if steps, found := stepTo(field.Type, name); found != nil {
				return append([]fieldStep{step}, steps...), found
			}
		}
	}
	return nil, nil
}

func wireNumber(field reflect.StructField) int {
	_, rest, _ := strings.Cut(field.Tag.Get("protobuf"), ",")
	number, _, _ := strings.Cut(rest, ",")
	n, _ := strconv.Atoi(number)
	return n
}

// valuesOf returns what an index over the path has for a version. A single field that is not set has the value "".
func valuesOf[T any](p *fieldPath, v *version[T]) []string {
	var values []string
	switch object := any(v.plain).(type) {
	case *unstructured.Unstructured:
		values = p.inTree(object.Object, p.names, nil)
	default:
		if v.packed != nil {
			values = p.inBytes(v.packed, p.steps, nil)
		} else {
			values = p.inStruct(reflect.ValueOf(v.plain), p.steps, nil)
		}
	}
	if values == nil && !p.repeated {
		return []string{""}
	}
	return values
}

func (p *fieldPath) inBytes(message []byte, steps []fieldStep, found []string) []string {
	for len(message) > 0 {
		f, rest, err := nextField(message)
		if err != nil {
			return found
		}
		message = rest
		if f.number != steps[0].number {
			continue
		}
		if len(steps) == 1 {
			found = append(found, string(f.value))
		} else {
			found = p.inBytes(f.value, steps[1:], found)
		}
	}
	return found
}

func (p *fieldPath) inStruct(v reflect.Value, steps []fieldStep, found []string) []string {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return found
		}
		v = v.Elem()
	}
	switch {
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			found = p.inStruct(v.Index(i), steps, found)
		}
		return found
	case len(steps) == 0:
		return append(found, v.String())
	}
	return p.inStruct(v.Field(steps[0].index), steps[1:], found)
}

func (p *fieldPath) inTree(node any, names []string, found []string) []string {
	switch n := node.(type) {
	case []any:
		for _, element := range n {
			found = p.inTree(element, names, found)
		}
	case map[string]any:
		if len(names) > 0 {
			return p.inTree(n[names[0]], names[1:], found)
		}
	case string:
		if len(names) == 0 {
			return append(found, n)
		}
	}
	return found
}

// AddFieldIndex adds an index whose name and values are those of a field: AddFieldIndex("spec.nodeName"), and then
// By("spec.nodeName", "n1"). Paths may lead through lists, as "metadata.ownerReferences.uid" does, and end at strings.
// Such an index costs far less than one with a function where objects are kept encoded.
func (s *Shared[T]) AddFieldIndex(path string) error {
	resolved, err := pathFor(reflect.TypeFor[T](), path)
	if err != nil {
		return fmt.Errorf("informer %s: %w", s.options.Name, err)
	}
	return s.addIndex(index[T]{name: path, values: func(v *version[T]) []string { return valuesOf(resolved, v) }})
}
