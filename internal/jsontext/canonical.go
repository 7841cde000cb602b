package jsontext

import "strings"

// Canonical reads JSON in one particular form: names sorted, no white space, strings with no more escapes than [Quote]
// writes. Its methods return false if the text is written otherwise, even if it is valid JSON. So two values are the
// same if their texts are.
//
// A text of which it has read everything is valid JSON without duplicate names.
type Canonical struct {
	Text string
	At   int
	// Ambiguous says that there was a null, a fraction or a large integer: values that may equal others with other
	// texts, or that mean nothing.
	Ambiguous bool

	depth   int
	escaped bool // the last string has escapes
}

// Next returns the next byte; 0 at the end.
func (c *Canonical) Next() byte {
	if c.At < len(c.Text) {
		return c.Text[c.At]
	}
	return 0
}

// Skip reads any value.
func (c *Canonical) Skip() bool {
	switch c.Next() {
	case '"':
		_, ok := c.Quoted()
		return ok
	case '{':
		return c.Object(func(string) bool { return c.Skip() })
	case '[':
		return c.List(c.Skip)
	case 't':
		return c.word("true")
	case 'f':
		return c.word("false")
	case 'n':
		return c.Null()
	}
	_, ok := c.Number()
	return ok
}

// Null reads null.
func (c *Canonical) Null() bool {
	c.Ambiguous = true
	return c.word("null")
}

// Bool reads true or false.
func (c *Canonical) Bool() bool {
	return c.word("true") || c.word("false")
}

func (c *Canonical) word(w string) bool {
	if !strings.HasPrefix(c.Text[c.At:], w) {
		return false
	}
	c.At += len(w)
	return true
}

// Object reads an object. It calls f at each value, with the name as it is written between the quotation marks, with
// its escapes; f must read the value.
func (c *Canonical) Object(f func(name string) bool) bool {
	if c.Next() != '{' || c.depth >= maxDepth {
		return false
	}
	c.depth++
	c.At++
	if c.Next() == '}' {
		c.At++
		c.depth--
		return true
	}
	last, lastEscaped, begun := "", false, false
	for {
		quoted, ok := c.Quoted()
		if !ok || c.Next() != ':' {
			return false
		}
		c.At++
		name, escaped := quoted[1:len(quoted)-1], c.escaped
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
		switch c.Next() {
		case ',':
			c.At++
		case '}':
			c.At++
			c.depth--
			return true
		default:
			return false
		}
	}
}

// after reports whether a name comes after another one. Both are given with their escapes, which may be those of
// quotation marks and backslashes, as in managed fields; others are not compared.
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
func (c *Canonical) List(f func() bool) bool {
	if c.Next() != '[' || c.depth >= maxDepth {
		return false
	}
	c.depth++
	c.At++
	if c.Next() == ']' {
		c.At++
		c.depth--
		return true
	}
	for {
		if !f() {
			return false
		}
		switch c.Next() {
		case ',':
			c.At++
		case ']':
			c.At++
			c.depth--
			return true
		default:
			return false
		}
	}
}

// Number reads a number. If it is an integer, it has no more than 64 bits.
func (c *Canonical) Number() (integer bool, ok bool) {
	n, integer := Number(c.Text[c.At:])
	text := c.Text[c.At : c.At+n]
	c.At += n
	if n == 0 || text == "-0" {
		return false, false
	}
	if integer && n < manyDigits {
		return true, true
	}
	c.Ambiguous = c.Ambiguous || !integer || len(strings.TrimPrefix(text, "-")) >= manyDigits
	_, ok = NumberValue(text)
	return integer, ok
}

// An integer of manyDigits may have more than 64 bits. Those with fewer digits are smallIntegers.
const (
	manyDigits          = 19
	smallIntegers int64 = 1e18
)

// Quoted reads a string, and returns it with its quotation marks and escapes.
func (c *Canonical) Quoted() (quoted string, ok bool) {
	if c.Next() != '"' {
		return "", false
	}
	from := c.At
	at := from + 1
	at += Unescaped(c.Text[at:])
	if at >= len(c.Text) {
		return "", false
	}
	if c.Text[at] == '"' {
		c.At, c.escaped = at+1, false
		return c.Text[from:c.At], true
	}
	return c.quotedOtherwise(from)
}

// quotedOtherwise reads a string that began at an offset and has characters that are no ASCII, or escapes.
func (c *Canonical) quotedOtherwise(from int) (quoted string, ok bool) {
	s, end, ok := String(c.Text, from)
	if !ok {
		return "", false
	}
	c.At = end
	quoted = c.Text[from:end]
	c.escaped = strings.IndexByte(quoted, '\\') >= 0
	var room [256]byte
	return quoted, string(Quote(room[:0], s)) == quoted
}

// Ambiguous reports whether a decoded value contains what makes a [Canonical] ambiguous.
func Ambiguous(value any) bool {
	switch v := value.(type) {
	case nil, float64:
		return true
	case map[string]any:
		for _, inner := range v {
			if Ambiguous(inner) {
				return true
			}
		}
	case []any:
		for _, inner := range v {
			if Ambiguous(inner) {
				return true
			}
		}
	case int64:
		return v <= -smallIntegers || v >= smallIntegers
	}
	return false
}
