package patch

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// touch is a field that a patch can change, and what it is to be merged with; nothing is said of that by JSON patches.
type touch struct {
	path  fieldPath
	value any
}

// fieldPath leads from a struct to a field in it, or in structs that are its fields.
type fieldPath []int

// touched finds the fields of a struct that a patch can change, or look at. What is beside them stays as it is, whatever the
// patch does. ok is false where that is not so clear.
func touched(t reflect.Type, kind types.PatchType, text []byte) (all []touch, ok bool) {
	if kind != types.JSONPatchType {
		var patch map[string]any
		if json.Unmarshal(text, &patch) != nil {
			return nil, false
		}
		ok = addMerged(t, patch, nil, &all)
		return all, ok
	}
	var operations []struct {
		Path string  `json:"path"`
		From *string `json:"from"`
	}
	if json.Unmarshal(text, &operations) != nil {
		return nil, false
	}
	for _, o := range operations {
		if ok = addPointer(t, o.Path, &all); ok && o.From != nil {
			ok = addPointer(t, *o.From, &all)
		}
		if !ok {
			return nil, false
		}
	}
	return all, true
}

// addMerged adds what a merge patch changes. A part of a struct is merged into the struct; anything else changes the field
// that it is for.
func addMerged(t reflect.Type, patch map[string]any, at fieldPath, to *[]touch) bool {
	for name, value := range patch {
		if strings.HasPrefix(name, "$") {
			// Directives with a name behind them are about that field; others about everything that is here.
			var about bool
			if _, name, about = strings.Cut(name, "/"); !about {
				return false
			}
		}
		f, ok := namesOf(t)[name]
		if !ok {
			return false
		}
		path := append(at[:len(at):len(at)], f.path...)
		inner, isObject := value.(map[string]any)
		switch {
		case !f.open:
			*to = append(*to, touch{path, value})
		case !isObject:
			return false
		case !addMerged(f.goType, inner, path, to):
			return false
		}
	}
	return true
}

// addPointer adds where a JSON pointer leads to, as far as structs go.
func addPointer(t reflect.Type, pointer string, to *[]touch) bool {
	if pointer == "" || pointer[0] != '/' || strings.Contains(pointer, "~") {
		return false
	}
	var path fieldPath
	for name := range strings.SplitSeq(pointer[1:], "/") {
		f, ok := namesOf(t)[name]
		if !ok {
			return false
		}
		path = append(path, f.path...)
		if t = f.goType; !f.open {
			break
		}
	}
	*to = append(*to, touch{path: path})
	return true
}

// named is a field that has a name in JSON.
type named struct {
	path   fieldPath
	goType reflect.Type
	// open says that it is a struct that is always there, as the object of its fields.
	open bool
}

var typeMeta = reflect.TypeFor[metav1.TypeMeta]()

var allNames sync.Map // reflect.Type to map[string]named

func namesOf(t reflect.Type) map[string]named {
	if known, ok := allNames.Load(t); ok {
		return known.(map[string]named)
	}
	names := map[string]named{}
	addNames(t, nil, names)
	known, _ := allNames.LoadOrStore(t, names)
	return known.(map[string]named)
}

func addNames(t reflect.Type, at fieldPath, to map[string]named) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		path := append(at[:len(at):len(at)], i)
		switch {
		case f.Type == typeMeta: // a patch of what an object is, is a matter of its own
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			addNames(f.Type, path, to)
		case name != "" && name != "-":
			to[name] = named{path: path, goType: f.Type, open: f.Type.Kind() == reflect.Struct &&
				!strings.Contains(options, "omitzero") && !reflect.PointerTo(f.Type).Implements(reflect.TypeFor[json.Unmarshaler]())}
		}
	}
}
