package patch

import (
	"encoding/json"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/gotypes"
)

// touch is a field that a patch may change, with the value to merge into it; a JSON patch has no such value.
type touch struct {
	path  fieldPath
	value any
}

// fieldPath leads from a struct to a field in it, or in structs that are its fields.
type fieldPath []int

// touched returns the fields of a struct that a patch may change or read. All others stay as they are. ok is false if
// that cannot be decided.
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

// addMerged adds the fields that a merge patch changes. If a field is a struct, its changed fields are added instead.
func addMerged(t reflect.Type, patch map[string]any, at fieldPath, to *[]touch) bool {
	for name, value := range patch {
		if strings.HasPrefix(name, "$") {
			// A directive whose name contains a field's is about that field; others are about the whole object here.
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

// addPointer adds the field to which a JSON pointer leads, as far as there are structs.
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

// named is a field with its JSON name.
type named struct {
	path   fieldPath
	goType reflect.Type
	// open says that the field is a struct that is always present, so that its fields can be patched separately.
	open bool
}

var typeMeta = reflect.TypeFor[metav1.TypeMeta]()

var allNames = gotypes.New(func(names *map[string]named, t reflect.Type, _ func(reflect.Type) *map[string]named) {
	*names = map[string]named{}
	addNames(t, nil, *names)
})

func namesOf(t reflect.Type) map[string]named { return *allNames.Of(t) }

func addNames(t reflect.Type, at fieldPath, to map[string]named) {
	for f := range gotypes.Fields(t) {
		path := append(at[:len(at):len(at)], f.Index[0])
		isStruct := f.Type.Kind() == reflect.Struct
		switch {
		case f.Type == typeMeta: // patches of kind and apiVersion take the general path
		case f.Anonymous && f.JSON == "" && isStruct:
			addNames(f.Type, path, to)
		case f.JSON != "":
			to[f.JSON] = named{path: path, goType: f.Type, open: isStruct && !f.OmitZero && !gotypes.UnmarshalsJSON(f.Type)}
		}
	}
}
