package jsontext

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// String reads the string that begins at an offset of a text, and returns the offset after it. A string without escapes
// is a substring of the text.
func String(text string, at int) (s string, end int, ok bool) {
	if at >= len(text) || text[at] != '"' {
		return "", 0, false
	}
	start := at + 1
	foreign := false
	for at = start; ; at++ {
		at += literal(text[at:])
		if at >= len(text) {
			return "", 0, false
		}
		switch c := text[at]; {
		case c == '"':
			s = text[start:at]
			return s, at + 1, !foreign || utf8.ValidString(s)
		case c == '\\':
			return stringWithEscapes(text, start, at)
		case c < ' ':
			return "", 0, false
		}
		foreign = true
	}
}

// Unquote reads a text that is one string.
func Unquote(quoted string) (s string, ok bool) {
	s, end, ok := String(quoted, 0)
	return s, ok && end == len(quoted)
}

// literal returns how many bytes at the beginning of a text are ASCII characters of a string. It checks eight at a
// time.
func literal[T Text](s T) int {
	n := 0
	for ; len(s)-n >= 8; n += 8 {
		w := word(s[n:])
		if (w|(w-0x20*ones)|((w^0x22*ones)-ones)|((w^0x5c*ones)-ones))&highs != 0 {
			break
		}
	}
	for n < len(s) {
		if c := s[n]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			break
		}
		n++
	}
	return n
}

// stringWithEscapes reads a string that began at start and has its first backslash at an offset.
func stringWithEscapes(text string, start, at int) (s string, end int, ok bool) {
	for at < len(text) && text[at] != '"' {
		if text[at] == '\\' {
			at++
		}
		at++
	}
	if at >= len(text) {
		return "", 0, false
	}
	var b strings.Builder
	b.Grow(at - start)
	for rest := text[start:at]; rest != ""; {
		n := strings.IndexByte(rest, '\\')
		if n < 0 {
			n = len(rest)
		}
		for i := range n {
			if rest[i] < ' ' {
				return "", 0, false
			}
		}
		b.WriteString(rest[:n])
		if rest = rest[n:]; rest == "" {
			break
		}
		if rest, ok = unescape(&b, rest); !ok {
			return "", 0, false
		}
	}
	s = b.String()
	return s, at + 1, utf8.ValidString(s)
}

// unescape decodes an escape and returns what follows it.
func unescape(b *strings.Builder, s string) (rest string, ok bool) {
	if len(s) < 2 {
		return "", false
	}
	switch s[1] {
	case '"', '\\', '/':
		b.WriteByte(s[1])
	case 'b':
		b.WriteByte('\b')
	case 'f':
		b.WriteByte('\f')
	case 'n':
		b.WriteByte('\n')
	case 'r':
		b.WriteByte('\r')
	case 't':
		b.WriteByte('\t')
	case 'u':
		if len(s) < 6 {
			return "", false
		}
		code, err := strconv.ParseUint(s[2:6], 16, 16)
		if err != nil || !utf8.ValidRune(rune(code)) {
			return "", false // surrogates
		}
		b.WriteRune(rune(code))
		return s[6:], true
	default:
		return "", false
	}
	return s[2:], true
}
