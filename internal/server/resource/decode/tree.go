package decode

import (
	"strconv"
	"unsafe"
)

// Tree decodes a text into maps, lists and scalars, as sigs.k8s.io/json does without a Go type, and reports whether it could.
func Tree(text []byte) (object map[string]any, ok bool) {
	if len(text) == 0 {
		return nil, false
	}
	r := reader{text: unsafe.String(&text[0], len(text))}
	if r.peek() != '{' {
		return nil, false
	}
	object, ok = r.treeMap()
	return object, ok && r.peek() == 0 && r.at == len(r.text)
}

// Value decodes the text of any value in the same way.
func Value(text string) (value any, ok bool) {
	r := reader{text: text}
	r.peek()
	value, ok = r.any()
	return value, ok && r.peek() == 0 && r.at == len(r.text)
}

// Quoted decodes a string with its quotation marks.
func Quoted(text string) (s string, ok bool) {
	r := reader{text: text}
	s, ok = r.quoted()
	return s, ok && r.at == len(text)
}

// any reads the value at the current place, where there is no white space.
func (r *reader) any() (any, bool) {
	if r.at >= len(r.text) {
		return nil, false
	}
	switch r.text[r.at] {
	case '"':
		return r.quoted()
	case '{':
		return r.treeMap()
	case '[':
		return r.treeList()
	case 't':
		return true, r.word("true")
	case 'f':
		return false, r.word("false")
	case 'n':
		return nil, r.word("null")
	}
	return r.scalarNumber()
}

func (r *reader) treeMap() (map[string]any, bool) {
	m := map[string]any{}
	ok := r.deeper() && r.entries(func(name string) bool {
		value, ok := r.any()
		known := len(m)
		m[name] = value
		return ok && len(m) > known
	})
	return m, ok && r.higher()
}

func (r *reader) treeList() ([]any, bool) {
	list := []any{}
	if !r.deeper() {
		return nil, false
	}
	if r.after() == ']' {
		r.at++
		return list, r.higher()
	}
	for {
		value, ok := r.any()
		if !ok {
			return nil, false
		}
		list = append(list, value)
		switch r.peek() {
		case ',':
			r.after()
		case ']':
			r.at++
			return list, r.higher()
		default:
			return nil, false
		}
	}
}

// scalarNumber reads a number as an integer if it is one. Signed zeros and integers that are too large are left to the library.
func (r *reader) scalarNumber() (any, bool) {
	start := r.at
	whole := r.digits()
	s := r.text[start:r.at]
	if whole {
		n, err := strconv.ParseInt(s, 10, 64)
		return n, err == nil && s != "-0"
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil && f != 0
}
