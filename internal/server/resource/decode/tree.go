package decode

import "github.com/millrace/millrace/internal/jsontext"

// Tree decodes a text into maps, lists and scalars, as sigs.k8s.io/json does without a Go type, and reports whether it
// could.
func Tree(text []byte) (object map[string]any, ok bool) {
	r := reader{text: string(text)}
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
	number, _ := r.digits()
	return jsontext.NumberValue(number)
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
