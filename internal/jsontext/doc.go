// Package jsontext reads and writes the parts of JSON that other packages work on as text: strings and numbers, values
// that are skipped, and values that are compared by their bytes.
//
// Guarantees:
//
//   - [Quote] writes the bytes that encoding/json writes, with HTML characters escaped.
//   - [String] and [Unquote] accept only strings that encoding/json accepts, and return what it returns. They refuse
//     what it replaces: invalid UTF-8, and escapes of surrogates.
//   - A text that [Verbatim] accepts, or that a [Canonical] has read to its end, is valid JSON.
//   - No text makes a function here panic, or read behind its end.
//
// A caller may not assume that a refused text is invalid. [Members], [Elements] and [Member] walk through text that was
// checked before, and check little.
package jsontext

// Text is JSON, or a string that becomes a part of it.
type Text interface{ ~string | ~[]byte }
