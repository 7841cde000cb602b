// Package decode reads the JSON of Kubernetes objects into their Go structs, strictly, in one pass.
//
// A plan is compiled once from a Go type: which names its fields have and where they lie. With it, a body of 4 KB takes 9 µs of CPU
// where sigs.k8s.io/json's strict decoder takes 65.
//
// What is guaranteed:
//
//   - What is accepted becomes what that decoder makes of it; and that decoder has nothing to complain about.
//   - Whatever is not ordinary is refused, never guessed: errors, unknown fields and duplicate ones, names that are written
//     with escapes, broken UTF-8, halves of surrogates. Then the caller asks the other decoder, whose answer and words
//     count. What has been decoded until then is of no use.
//
// A caller may not change the text afterwards: the strings of the object are parts of it.
package decode

import (
	"reflect"
	"unsafe"
)

// JSON decodes a text into a zero struct, and tells whether it has been able to.
func JSON(text []byte, into any) bool {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() || len(text) == 0 {
		return false
	}
	p := known.Of(v.Type().Elem())
	if p.kind != structure {
		return false
	}
	r := reader{text: unsafe.String(&text[0], len(text))}
	if r.peek() != '{' || !r.value(p, v.UnsafePointer()) {
		return false
	}
	return r.peek() == 0 && r.at == len(r.text)
}
