package transcode

import "bytes"

// canonical tells that the text of a quantity is the one that quantities write: an integer without a factor that a larger
// suffix could take over. It may say no where the answer is yes.
func canonical(s []byte) bool {
	if string(s) == "0" {
		return true
	}
	n := digits(s, 0)
	if n == 0 || n > mostDigits || s[0] == '0' {
		return false
	}
	number, suffix := s[:n], s[n:]
	if len(suffix) < 2 {
		return bytes.IndexByte([]byte("numkMGTPE"), firstOr(suffix, 'n')) >= 0 && !bytes.HasSuffix(number, []byte("000"))
	}
	if len(suffix) > 2 || suffix[1] != 'i' {
		return false
	}
	return n <= mostBinary(suffix[0]) && integer(number)%1024 != 0
}

// mostBinary is how many digits may stand before a binary suffix. Quantities of more are capped, or kept as decimals.
func mostBinary(suffix byte) int {
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

const mostDigits = 18

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
