package decode

import (
	"encoding/binary"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"
)

// quoted reads a string. Without escapes the result is a substring of the text.
func (r *reader) quoted() (s string, ok bool) {
	if r.at >= len(r.text) || r.text[r.at] != '"' {
		return "", false
	}
	start := r.at + 1
	foreign := false
	for at := start; ; {
		at += plain(r.text[at:])
		if at >= len(r.text) {
			return "", false
		}
		switch c := r.text[at]; {
		case c == '"':
			s = r.text[start:at]
			r.at = at + 1
			return s, !foreign || utf8.ValidString(s)
		case c == '\\':
			return r.escaped(start, at)
		case c < ' ':
			return "", false
		}
		foreign = true
		at++
	}
}

const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// plain returns how many bytes at the beginning are ordinary characters. It checks eight at a time.
func plain(s string) int {
	n := 0
	for b := unsafe.Slice(unsafe.StringData(s), len(s)); len(b)-n >= 8; n += 8 {
		w := binary.LittleEndian.Uint64(b[n:])
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

// escaped reads a string that began at start and has its first backslash at at.
func (r *reader) escaped(start, at int) (s string, ok bool) {
	end := at
	for end < len(r.text) && r.text[end] != '"' {
		if r.text[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(r.text) {
		return "", false
	}
	r.at = end + 1
	var b strings.Builder
	b.Grow(end - start)
	rest := r.text[start:end]
	for rest != "" {
		n := strings.IndexByte(rest, '\\')
		if n < 0 {
			n = len(rest)
		}
		for i := range n {
			if rest[i] < ' ' {
				return "", false
			}
		}
		b.WriteString(rest[:n])
		if rest = rest[n:]; rest == "" {
			break
		}
		if rest, ok = unescape(&b, rest); !ok {
			return "", false
		}
	}
	s = b.String()
	return s, utf8.ValidString(s)
}

// unescape decodes what follows a backslash.
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

// digits skips a number in JSON syntax, and reports whether it is an integer. If there is no number, it skips nothing.
func (r *reader) digits() (whole bool) {
	s := r.text[r.at:]
	n := 0
	run := func() int {
		from := n
		for n < len(s) && '0' <= s[n] && s[n] <= '9' {
			n++
		}
		return n - from
	}
	if n < len(s) && s[n] == '-' {
		n++
	}
	first := n
	if d := run(); d == 0 || d > 1 && s[first] == '0' {
		return false
	}
	whole = true
	if n < len(s) && s[n] == '.' {
		whole = false
		if n++; run() == 0 {
			return false
		}
	}
	if n < len(s) && (s[n] == 'e' || s[n] == 'E') {
		whole = false
		if n++; n < len(s) && (s[n] == '+' || s[n] == '-') {
			n++
		}
		if run() == 0 {
			return false
		}
	}
	r.at += n
	return whole
}
