// Package decode decodes the JSON of Kubernetes objects into their Go structs, strictly, in one pass.
//
// A plan is compiled once from a Go type: the names of its fields and their offsets. With it, a body of 4 KB takes 9 µs
// of CPU, where the strict decoder of sigs.k8s.io/json takes 65.
//
// Guarantees:
//
//   - An accepted text gives the same object as that decoder does, and that decoder finds no error in it.
//   - Everything unusual is refused, never guessed: errors, unknown and duplicate fields, names that contain escapes,
//     invalid UTF-8, unpaired surrogates. Then the caller uses the other decoder, whose result and errors count. The
//     partly decoded object is useless.
//
// The strings of an object are substrings of one copy of the text, which lives as long as any of them.
package decode

import "reflect"

// JSON decodes a text into a zero struct, and reports whether it could.
func JSON(text []byte, into any) bool {
	return Text(string(text), into)
}

// Text does the same for a string, of which the object keeps parts.
func Text(text string, into any) bool {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return false
	}
	p := known.Of(v.Type().Elem())
	if p.kind != structure {
		return false
	}
	r := reader{text: text}
	if r.peek() != '{' || !r.value(p, v.UnsafePointer()) {
		return false
	}
	return r.peek() == 0 && r.at == len(r.text)
}
