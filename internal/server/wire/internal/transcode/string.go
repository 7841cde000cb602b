package transcode

import (
	"encoding/binary"
	"unicode/utf8"
)

// quote writes a string as encoding/json does, with HTML characters escaped.
func quote(out, s []byte) []byte {
	out = append(out, '"')
	n := plain(s)
	out = append(out, s[:n]...)
	if n < len(s) {
		out = escape(out, s[n:])
	}
	return append(out, '"')
}

// plainBytes are the characters that need no escape.
var plainBytes = func() (set [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		set[c] = true
	}
	for _, c := range `"\<>&` {
		set[c] = false
	}
	return set
}()

// plain returns how many bytes at the beginning need no escape. It checks eight at a time.
func plain(s []byte) int {
	n := 0
	for ; len(s)-n >= 8; n += 8 {
		if needsEscape(binary.LittleEndian.Uint64(s[n:])) {
			break
		}
	}
	for n < len(s) && plainBytes[s[n]] {
		n++
	}
	return n
}

const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// needsEscape reports whether any of eight bytes may need an escape. Characters that differ in one bit are checked together.
func needsEscape(w uint64) bool {
	quoteOrAnd := (w | 0x04*ones) ^ 0x26*ones // " and &
	brackets := (w | 0x02*ones) ^ 0x3e*ones   // < and >
	backslash := w ^ 0x5c*ones
	return (w|(w-0x20*ones)|(quoteOrAnd-ones)|(brackets-ones)|(backslash-ones))&highs != 0
}

const hex = "0123456789abcdef"

func escape(out, s []byte) []byte {
	for len(s) > 0 {
		c := s[0]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRune(s)
			switch {
			case r == utf8.RuneError && n == 1:
				out = append(out, `\ufffd`...)
			case r == '\u2028' || r == '\u2029':
				out = append(out, `\u202`...)
				out = append(out, hex[r&0xf])
			default:
				out = append(out, s[:n]...)
			}
			s = s[n:]
			continue
		}
		switch {
		case plainBytes[c]:
			out = append(out, c)
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c >= '\b' && c <= '\r' && c != '\v':
			out = append(out, '\\', "btn?fr"[c-'\b'])
		default:
			out = append(out, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		}
		s = s[1:]
	}
	return out
}
