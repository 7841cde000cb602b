package tree

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
	"unsafe"
)

// scanner walks through valid JSON text without decoding it. Stored text was written by an encoder; invalid text ends the walk early and does nothing
// worse.
type scanner struct {
	text []byte
	at   int
}

// space skips white space and returns the next byte; 0 at the end.
func (s *scanner) space() byte {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return c
		}
	}
	return 0
}

// skip skips one value and returns its text.
func (s *scanner) skip() []byte {
	c := s.space()
	from := s.at
	switch c {
	case '"':
		s.skipString()
	case '{', '[':
		s.skipNested()
	default:
		for s.at < len(s.text) && !ends(s.text[s.at]) {
			s.at++
		}
	}
	return s.text[from:s.at]
}

// ends reports whether a byte ends a number or a literal.
func ends(c byte) bool {
	switch c {
	case ',', '}', ']', ':', ' ', '\t', '\n', '\r':
		return true
	}
	return false
}

func (s *scanner) skipString() {
	from := s.at + 1
	for at := from; at < len(s.text); {
		n := bytes.IndexByte(s.text[at:], '"')
		if n < 0 {
			break
		}
		at += n + 1
		// The quotation mark is part of the string if it comes after an odd number of backslashes.
		escapes := 0
		for i := at - 2; i >= from && s.text[i] == '\\'; i-- {
			escapes++
		}
		if escapes%2 == 0 {
			s.at = at
			return
		}
	}
	s.at = len(s.text)
}

func (s *scanner) skipNested() {
	depth := 0
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case '"':
			s.skipString()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		s.at++
		if depth == 0 {
			return
		}
	}
}

// Members calls f with the quoted names and the values of an object, until f returns false. It reports whether it reached the object's end. If the
// text is not an object, it does nothing.
func Members(text []byte, f func(name, value []byte) (more bool)) (ended bool) {
	s := scanner{text: text}
	if s.space() != '{' {
		return false
	}
	s.at++
	for s.space() == '"' {
		name := s.skip()
		if s.space() != ':' {
			return false
		}
		s.at++
		s.space()
		value := s.skip()
		if len(value) == 0 || !f(name, value) {
			return false
		}
		if s.space() != ',' {
			break
		}
		s.at++
	}
	return s.space() == '}'
}

// Elements calls f with the elements of a list, until f returns false. It reports whether it reached the list's end.
func Elements(text []byte, f func(value []byte) (more bool)) (ended bool) {
	s := scanner{text: text}
	if s.space() != '[' {
		return false
	}
	s.at++
	for s.space() != ']' {
		value := s.skip()
		if len(value) == 0 || !f(value) {
			return false
		}
		if s.space() != ',' {
			break
		}
		s.at++
	}
	return s.space() == ']'
}

// member returns the value of one member of an object; nil if there is none. Encoders write no name twice.
func member(text []byte, name string) (found []byte) {
	Members(text, func(n, value []byte) bool {
		if named(n, name) {
			found = value
		}
		return found == nil
	})
	return found
}

// named reports whether a quoted name equals name.
func named(quoted []byte, name string) bool {
	if len(quoted) == len(name)+2 && string(quoted[1:len(quoted)-1]) == name {
		return true
	}
	text, ok := unquote(quoted)
	return ok && text == name
}

// unquote reads a JSON string.
func unquote(quoted []byte) (string, bool) {
	if len(quoted) < 2 || quoted[0] != '"' || quoted[len(quoted)-1] != '"' {
		return "", false
	}
	inner := quoted[1 : len(quoted)-1]
	for _, c := range inner {
		if c == '\\' || c < ' ' || c >= utf8.RuneSelf {
			var text string
			err := json.Unmarshal(quoted, &text)
			return text, err == nil
		}
	}
	return string(inner), true
}

// scalar returns a value as field selectors see it: a string, boolean or integer. Anything else is empty.
func scalar(value []byte) string {
	if len(value) == 0 {
		return ""
	}
	switch value[0] {
	case '"':
		text, _ := unquote(value)
		return text
	case 't', 'f':
		return string(value)
	case '{', '[', 'n':
		return ""
	}
	if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
		return strconv.FormatInt(n, 10)
	}
	return ""
}

// At returns the text of the value at a path in the text of an object; nothing if there is none. ok is false if something on the way is no object.
func At(text string, path []string) (found string, ok bool) {
	at := bytesOf(text)
	for _, name := range path {
		if len(at) == 0 {
			return "", true
		}
		if at[0] != '{' {
			return "", false
		}
		at = member(at, name)
	}
	return unsafe.String(unsafe.SliceData(at), len(at)), true
}
