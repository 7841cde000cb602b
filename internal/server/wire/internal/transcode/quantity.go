package transcode

import "bytes"

// canonical reports whether the text of a quantity is already in canonical form: an integer that has no factor for a
// larger suffix. It may return false for some canonical texts.
func canonical(s []byte) bool {
	if string(s) == "0" {
		return true
	}
	n := 0
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	if n == 0 || n > maxDigits || s[0] == '0' {
		return false
	}
	number, suffix := s[:n], s[n:]
	if len(suffix) < 2 {
		return bytes.IndexByte([]byte("numkMGTPE"), firstOr(suffix, 'n')) >= 0 && !bytes.HasSuffix(number, []byte("000"))
	}
	if len(suffix) > 2 || suffix[1] != 'i' {
		return false
	}
	return n <= maxBinaryDigits(suffix[0]) && integer(number)%1024 != 0
}

// maxBinaryDigits returns the maximum number of digits before a binary suffix. Larger quantities are capped, or become
// decimal.
func maxBinaryDigits(suffix byte) int {
	switch suffix {
	case 'K':
		return 11
	case 'M':
		return 8
	case 'G':
		return 5
	case 'T':
		return 2
	}
	return 0
}

const maxDigits = 18

func firstOr(b []byte, otherwise byte) byte {
	if len(b) == 0 {
		return otherwise
	}
	return b[0]
}

func integer(digits []byte) (n int64) {
	for _, c := range digits {
		n = n*10 + int64(c-'0')
	}
	return n
}
