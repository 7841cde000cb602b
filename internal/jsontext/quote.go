package jsontext

import "unicode/utf8"

// Quote appends a string in quotation marks, as encoding/json writes it.
func Quote[T Text](b []byte, s T) []byte {
	b = append(b, '"')
	n := Unescaped(s)
	b = append(b, s[:n]...)
	if n < len(s) {
		b = escape(b, s[n:])
	}
	return append(b, '"')
}

// unescaped are the characters that a string contains as they are.
var unescaped = func() (set [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		set[c] = true
	}
	for _, c := range `"\<>&` {
		set[c] = false
	}
	return set
}()

// Unescaped returns how many bytes at the beginning of a string are ASCII characters that [Quote] writes as they are.
// It checks eight at a time.
func Unescaped[T Text](s T) int {
	n := 0
	for ; len(s)-n >= 8; n += 8 {
		w := word(s[n:])
		quoteOrAnd := (w | 0x04*ones) ^ 0x26*ones // " and & differ in one bit
		brackets := (w | 0x02*ones) ^ 0x3e*ones   // and so do < and >
		backslash := w ^ 0x5c*ones
		if (w|(w-0x20*ones)|(quoteOrAnd-ones)|(brackets-ones)|(backslash-ones))&highs != 0 {
			break
		}
	}
	for n < len(s) && unescaped[s[n]] {
		n++
	}
	return n
}

// Eight bytes are checked at once: a byte that is zero, or smaller than what is subtracted from it, gets its highest
// bit. A borrow may set that bit for a byte above it too, so such a word is only suspected, and looked at byte by byte.
const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// word returns the first eight bytes, which the compiler loads at once.
func word[T Text](s T) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

const hex = "0123456789abcdef"

// escape appends a string of which some characters need escapes.
func escape[T Text](b []byte, s T) []byte {
	for len(s) > 0 {
		switch c := s[0]; {
		case c >= utf8.RuneSelf:
			var n int
			b, n = escapeRune(b, s)
			s = s[n:]
			continue
		case unescaped[c]:
			b = append(b, c)
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c >= '\b' && c <= '\r' && c != '\v':
			b = append(b, '\\', "btn?fr"[c-'\b'])
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		}
		s = s[1:]
	}
	return b
}

// escapeRune appends the character that begins a string and is not ASCII. Line separators are escaped, and invalid
// bytes replaced.
func escapeRune[T Text](b []byte, s T) (_ []byte, n int) {
	var first [utf8.UTFMax]byte
	r, n := utf8.DecodeRune(first[:copy(first[:], s)])
	switch {
	case r == utf8.RuneError && n == 1:
		b = append(b, `\ufffd`...)
	case r == '\u2028' || r == '\u2029':
		b = append(append(b, `\u202`...), hex[r&0xf])
	default:
		b = append(b, s[:n]...)
	}
	return b, n
}
