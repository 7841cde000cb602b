package tree

import (
	"encoding/binary"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/millrace/millrace/internal/server/resource/decode"
)

// Plain reads JSON that is written as Append writes it: names sorted, no white space, strings with no more escapes than they need. Its methods return
// false if the text is written otherwise, even if it is valid JSON. So two values are the same if their texts are.
//
// A text of which it has read everything is valid JSON without duplicate names.
type Plain struct {
	Text string
	At   int
	// Odd says that there was a null, or a number that is not a plain integer. Such values are equal to values with other texts, or mean nothing.
	Odd bool

	depth   int
	escaped bool // the last string has escapes
}

// maxPlainDepth keeps the stack small.
const maxPlainDepth = 200

// Next returns the next byte; 0 at the end.
func (p *Plain) Next() byte {
	if p.At < len(p.Text) {
		return p.Text[p.At]
	}
	return 0
}

// Skip reads any value.
func (p *Plain) Skip() bool {
	switch c := p.Next(); c {
	case '"':
		_, ok := p.Quoted()
		return ok
	case '{':
		return p.Object(func(string) bool { return p.Skip() })
	case '[':
		return p.List(p.Skip)
	case 't':
		return p.word("true")
	case 'f':
		return p.word("false")
	case 'n':
		return p.Null()
	}
	_, ok := p.Number()
	return ok
}

// Null reads null.
func (p *Plain) Null() bool {
	p.Odd = true
	return p.word("null")
}

// Truth reads true or false.
func (p *Plain) Truth() bool {
	return p.word("true") || p.word("false")
}

func (p *Plain) word(w string) bool {
	if !strings.HasPrefix(p.Text[p.At:], w) {
		return false
	}
	p.At += len(w)
	return true
}

// Object reads an object. It calls f at each value, with the name as it is written between the quotation marks, with its escapes; f must read the value.
func (p *Plain) Object(f func(name string) bool) bool {
	if p.Next() != '{' || p.depth >= maxPlainDepth {
		return false
	}
	p.depth++
	p.At++
	if p.Next() == '}' {
		p.At++
		p.depth--
		return true
	}
	last, lastEscaped, begun := "", false, false
	for {
		quoted, ok := p.Quoted()
		if !ok || p.Next() != ':' {
			return false
		}
		p.At++
		name, escaped := quoted[1:len(quoted)-1], p.escaped
		switch {
		case !begun:
		case !escaped && !lastEscaped:
			ok = name > last
		default:
			ok = after(name, last)
		}
		if !ok {
			return false
		}
		last, lastEscaped, begun = name, escaped, true
		if !f(name) {
			return false
		}
		switch p.Next() {
		case ',':
			p.At++
		case '}':
			p.At++
			p.depth--
			return true
		default:
			return false
		}
	}
}

// after reports whether a name comes after another one. Both are given with their escapes, which may be those of quotation marks and backslashes, as
// in managed fields; others are not compared.
func after(name, other string) bool {
	for i, j := 0, 0; i < len(name); i, j = i+1, j+1 {
		if j >= len(other) {
			return true
		}
		if name[i] == '\\' {
			if i++; name[i] != '"' && name[i] != '\\' {
				return false
			}
		}
		if other[j] == '\\' {
			if j++; other[j] != '"' && other[j] != '\\' {
				return false
			}
		}
		if name[i] != other[j] {
			return name[i] > other[j]
		}
	}
	return false
}

// List reads a list. It calls f at each element, which f must read.
func (p *Plain) List(f func() bool) bool {
	if p.Next() != '[' || p.depth >= maxPlainDepth {
		return false
	}
	p.depth++
	p.At++
	if p.Next() == ']' {
		p.At++
		p.depth--
		return true
	}
	for {
		if !f() {
			return false
		}
		switch p.Next() {
		case ',':
			p.At++
		case ']':
			p.At++
			p.depth--
			return true
		default:
			return false
		}
	}
}

// Number reads a number. If it is an integer, it is at least as large as the smallest 64-bit integer, and not larger than the largest one.
func (p *Plain) Number() (integer bool, ok bool) {
	from, at := p.At, p.At
	if at < len(p.Text) && p.Text[at] == '-' {
		at++
	}
	digits := at
	for at < len(p.Text) && p.Text[at] >= '0' && p.Text[at] <= '9' {
		at++
	}
	n := at - digits
	if at < len(p.Text) && (p.Text[at] == '.' || p.Text[at] == 'e' || p.Text[at] == 'E') || n >= manyDigits {
		return p.otherNumber()
	}
	if n == 0 || p.Text[digits] == '0' && (n > 1 || digits > from) {
		return false, false
	}
	p.At = at
	return true, true
}

// An integer of manyDigits may have more than 64 bits. Those with fewer digits are smallIntegers.
const (
	manyDigits          = 19
	smallIntegers int64 = 1e18
)

// otherNumber reads a fraction or a large integer.
func (p *Plain) otherNumber() (integer bool, ok bool) {
	p.Odd = true
	end := p.At
	for end < len(p.Text) && strings.IndexByte("+-.0123456789eE", p.Text[end]) >= 0 {
		end++
	}
	text := p.Text[p.At:end]
	p.At = end
	if value, ok := decode.Value(text); ok {
		_, integer = value.(int64)
		return integer, true
	}
	return false, false
}

// Quoted reads a string, and returns it with its quotation marks and escapes.
func (p *Plain) Quoted() (quoted string, ok bool) {
	if p.Next() != '"' {
		return "", false
	}
	from := p.At
	at := from + 1
	at += unescaped(p.Text[at:])
	if at >= len(p.Text) {
		return "", false
	}
	if p.Text[at] == '"' {
		p.At, p.escaped = at+1, false
		return p.Text[from:p.At], true
	}
	return p.odd(from, at)
}

// odd reads a string that began at from, and has a character at at that encoders may escape.
func (p *Plain) odd(from, at int) (quoted string, ok bool) {
	for ; at < len(p.Text) && p.Text[at] != '"'; at++ {
		if p.Text[at] == '\\' {
			at++
		}
	}
	if at >= len(p.Text) {
		return "", false
	}
	p.At = at + 1
	quoted = p.Text[from:p.At]
	p.escaped = strings.IndexByte(quoted, '\\') >= 0
	var room [256]byte
	s, ok := decode.Quoted(quoted)
	return quoted, ok && string(appendText(room[:0], s)) == quoted
}

// unescaped returns how many bytes at the beginning of a text are written in JSON as they are. It checks eight at a time.
func unescaped(s string) int {
	const (
		ones  = 0x0101010101010101
		highs = 0x80 * ones
	)
	n := 0
	for b := unsafe.Slice(unsafe.StringData(s), len(s)); len(b)-n >= 8; n += 8 {
		w := binary.LittleEndian.Uint64(b[n:])
		special := (w ^ '"'*ones) - ones
		special |= (w ^ '\\'*ones) - ones
		special |= (w ^ '<'*ones) - ones
		special |= (w ^ '>'*ones) - ones
		special |= (w ^ '&'*ones) - ones
		if (w|(w-0x20*ones)|special)&highs != 0 {
			break
		}
	}
	for n < len(s) {
		if c := s[n]; c < ' ' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' || c >= utf8.RuneSelf {
			break
		}
		n++
	}
	return n
}

// plain returns a value as Append writes it, and the value itself if it had to be decoded for that. ok is false for values that are odd.
func plain(text string) (same string, value any, ok bool) {
	p := Plain{Text: text}
	if p.Skip() && p.At == len(text) {
		return text, nil, !p.Odd
	}
	if value, ok = decode.Value(text); !ok || odd(value) {
		return "", nil, false
	}
	return written(value), value, true
}

// odd reports whether there is a null or a fraction in a value.
func odd(value any) bool {
	switch v := value.(type) {
	case nil, float64:
		return true
	case map[string]any:
		for _, inner := range v {
			if odd(inner) {
				return true
			}
		}
	case []any:
		for _, inner := range v {
			if odd(inner) {
				return true
			}
		}
	case int64:
		return v <= -smallIntegers || v >= smallIntegers
	}
	return false
}

// written returns the text of a value that is not odd.
func written(value any) string {
	e := encoders.Get().(*encoder)
	defer e.release()
	e.room, _ = e.value(e.room[:0], value) // fails only for values of other types
	return string(e.room)
}

// PlainOf reads a text that must not be modified meanwhile.
func PlainOf(text []byte) Plain {
	return Plain{Text: unsafe.String(unsafe.SliceData(text), len(text))}
}
