package jsontext

// Scanner walks through valid JSON without decoding it. Invalid text ends the walk early and does nothing worse.
type Scanner[T Text] struct {
	Text T
	At   int
}

// Space skips white space and returns the next byte; 0 at the end.
func (s *Scanner[T]) Space() byte {
	for s.At < len(s.Text) {
		switch c := s.Text[s.At]; c {
		case ' ', '\t', '\n', '\r':
			s.At++
		default:
			return c
		}
	}
	return 0
}

// Skip skips one value and returns its text.
func (s *Scanner[T]) Skip() T {
	c := s.Space()
	from := s.At
	switch c {
	case '"':
		s.skipString()
	case '{', '[':
		s.skipNested()
	default:
		for s.At < len(s.Text) && !ends(s.Text[s.At]) {
			s.At++
		}
	}
	return s.Text[from:s.At]
}

// ends reports whether a byte ends a number or a literal.
func ends(c byte) bool {
	switch c {
	case ',', '}', ']', ':', ' ', '\t', '\n', '\r':
		return true
	}
	return false
}

func (s *Scanner[T]) skipString() {
	for at := s.At + 1; ; {
		if at < len(s.Text) {
			at += literal(s.Text[at:])
		}
		if at >= len(s.Text) {
			s.At = len(s.Text)
			return
		}
		switch s.Text[at] {
		case '"':
			s.At = at + 1
			return
		case '\\':
			at += 2
		default:
			at++
		}
	}
}

func (s *Scanner[T]) skipNested() {
	depth := 0
	for s.At < len(s.Text) {
		switch s.Text[s.At] {
		case '"':
			s.skipString()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		s.At++
		if depth == 0 {
			return
		}
	}
}

// Members calls f with the quoted names and the values of an object, until f returns false. It reports whether it
// reached the object's end. If the text is not an object, it does nothing.
func Members[T Text](text T, f func(name, value T) (more bool)) (ended bool) {
	s := Scanner[T]{Text: text}
	return s.members(f)
}

// AllMembers does the same for a text that must be one object and nothing else.
func AllMembers[T Text](text T, f func(name, value T) (more bool)) (ended bool) {
	s := Scanner[T]{Text: text}
	return s.members(f) && s.Space() == 0 && s.At == len(text)
}

func (s *Scanner[T]) members(f func(name, value T) (more bool)) (ended bool) {
	if s.Space() != '{' {
		return false
	}
	s.At++
	for next := s.Space(); next != '}'; next = s.Space() {
		if next != '"' {
			return false
		}
		name := s.Skip()
		if s.Space() != ':' {
			return false
		}
		s.At++
		s.Space()
		value := s.Skip()
		if len(value) == 0 || !f(name, value) {
			return false
		}
		if s.Space() != ',' {
			break
		}
		if s.At++; s.Space() == '}' { // after a comma comes another member
			return false
		}
	}
	if s.Space() != '}' {
		return false
	}
	s.At++
	return true
}

// Elements calls f with the elements of a list, until f returns false. It reports whether it reached the list's end.
func Elements[T Text](text T, f func(value T) (more bool)) (ended bool) {
	s := Scanner[T]{Text: text}
	if s.Space() != '[' {
		return false
	}
	s.At++
	for s.Space() != ']' {
		value := s.Skip()
		if len(value) == 0 || !f(value) {
			return false
		}
		if s.Space() != ',' {
			break
		}
		s.At++
	}
	return s.Space() == ']'
}

// Member returns the value of one member of an object; nothing if there is none. Encoders write no name twice.
func Member[T Text](text T, name string) (found T) {
	Members(text, func(quoted, value T) bool {
		if !named(quoted, name) {
			return true
		}
		found = value
		return false
	})
	return found
}

// At returns the text of the value at a path in the text of an object; nothing if there is none. ok is false if
// something on the way is no object.
func At[T Text](text T, path ...string) (found T, ok bool) {
	for _, name := range path {
		if len(text) == 0 {
			return text, true
		}
		if text[0] != '{' {
			return found, false
		}
		text = Member(text, name)
	}
	return text, true
}

// named reports whether a quoted name equals name.
func named[T Text](quoted T, name string) bool {
	if len(quoted) < 2 {
		return false
	}
	inner := quoted[1 : len(quoted)-1]
	if string(inner) == name {
		return true
	}
	for i := range len(inner) {
		if inner[i] == '\\' {
			unescaped, ok := Unquote(string(quoted))
			return ok && unescaped == name
		}
	}
	return false
}
