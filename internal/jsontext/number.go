package jsontext

import "strconv"

// Number returns the length of the number at the beginning of a text, and whether it is written as an integer. The
// length is 0 if there is no number.
func Number[T Text](s T) (n int, integer bool) {
	if n < len(s) && s[n] == '-' {
		n++
	}
	first := n
	if n = digits(s, n); n == first || s[first] == '0' && n > first+1 {
		return 0, false
	}
	integer = true
	if n < len(s) && s[n] == '.' {
		integer = false
		first = n + 1
		if n = digits(s, first); n == first {
			return 0, false
		}
	}
	if n < len(s) && (s[n] == 'e' || s[n] == 'E') {
		integer = false
		if n++; n < len(s) && (s[n] == '+' || s[n] == '-') {
			n++
		}
		first = n
		if n = digits(s, first); n == first {
			return 0, false
		}
	}
	return n, integer
}

// digits returns where the digits at an offset end.
func digits[T Text](s T, at int) int {
	for at < len(s) && '0' <= s[at] && s[at] <= '9' {
		at++
	}
	return at
}

// NumberValue returns the value of a text that is one number: an int64 if it is written as an integer, and else a
// float64. It refuses zeros with a sign or a fraction, and what is too large.
func NumberValue(text string) (value any, ok bool) {
	n, integer := Number(text)
	switch {
	case n == 0 || n < len(text):
		return nil, false
	case integer:
		i, err := strconv.ParseInt(text, 10, 64)
		return i, err == nil && text != "-0"
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil && f != 0
}
