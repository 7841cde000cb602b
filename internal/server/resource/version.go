package resource

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Alike is a further version of a kind whose fields have the same names as the kind's. T is its Go type. It is
// Optional, as all versions are in Kubernetes that are not stable.
func Alike[P Object, T any, Q interface {
	*T
	runtime.Object
}](gvk schema.GroupVersionKind) Serving[P] {
	return Serving[P]{
		Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Optional: true,
		New: func() runtime.Object { return Q(new(T)) },
		From: func(o P) runtime.Object {
			out := Q(new(T))
			Transcribe(out, o)
			out.GetObjectKind().SetGroupVersionKind(gvk)
			return out
		},
		To: func(o runtime.Object) P {
			out := reflect.New(reflect.TypeFor[P]().Elem()).Interface().(P)
			Transcribe(out, o)
			return out
		},
	}
}

// Transcribe copies the fields of a struct, to which from points, into those of the same name of another struct, to
// which to points. Fields of one that the other does not have are left alone. A pointer is like its value, and nil like
// the zero value. Values of the same type are shared.
func Transcribe(to, from any) {
	transcribeParts(reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem())
}

func transcribe(to, from reflect.Value) {
	switch {
	case from.Type() == to.Type():
		to.Set(from)
	case from.IsZero():
		to.SetZero()
	case to.Kind() == reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		transcribe(to.Elem(), reflect.Indirect(from))
	case from.Kind() == reflect.Pointer:
		transcribe(to, from.Elem())
	default:
		transcribeParts(to, from)
	}
}

func transcribeParts(to, from reflect.Value) {
	switch to.Kind() {
	case reflect.Struct:
		for i := range to.NumField() {
			if f := from.FieldByName(to.Type().Field(i).Name); f.IsValid() {
				transcribe(to.Field(i), f)
			}
		}
	case reflect.Slice:
		to.Set(reflect.MakeSlice(to.Type(), from.Len(), from.Len()))
		for i := range from.Len() {
			transcribe(to.Index(i), from.Index(i))
		}
	case reflect.Map:
		to.Set(reflect.MakeMapWithSize(to.Type(), from.Len()))
		for key, value := range from.Seq2() {
			copied := reflect.New(to.Type().Elem()).Elem()
			transcribe(copied, value)
			to.SetMapIndex(key.Convert(to.Type().Key()), copied)
		}
	default:
		to.Set(from.Convert(to.Type()))
	}
}

// current is the minor version of Kubernetes whose API this is.
const current = 37

// deprecation is the warning that clients of a version get whose days are numbered. The published types say so.
func deprecation(gvk schema.GroupVersionKind, o runtime.Object) string {
	d, ok := o.(interface{ APILifecycleDeprecated() (major, minor int) })
	if !ok {
		return ""
	}
	major, minor := d.APILifecycleDeprecated()
	if major != 1 || minor > current {
		return ""
	}
	text := fmt.Sprintf("%s %s is deprecated in v%d.%d+", gvk.GroupVersion(), gvk.Kind, major, minor)
	if r, ok := o.(interface{ APILifecycleRemoved() (major, minor int) }); ok {
		major, minor := r.APILifecycleRemoved()
		text += fmt.Sprintf(", unavailable in v%d.%d+", major, minor)
	}
	if r, ok := o.(interface {
		APILifecycleReplacement() schema.GroupVersionKind
	}); ok {
		instead := r.APILifecycleReplacement()
		text += fmt.Sprintf("; use %s %s", instead.GroupVersion(), instead.Kind)
	}
	return text
}
