package wire

import "hash/crc32"

// The CRC of two texts one behind the other follows from their own: the first one's is carried over as many zero bytes as
// the second is long, which is a multiplication by x^(8·length) modulo the polynomial.

// combineCRC returns the checksum of a text with checksum a followed by one with checksum b and the given length.
func combineCRC(a, b, length uint32) uint32 {
	return multiply(zeros(length), a) ^ b
}

// powers[i] is x^(2^i) modulo the polynomial, in the reflected form in which the checksum is kept.
var powers = func() (p [35]uint32) {
	p[0] = 1 << 30 // x
	for i := 1; i < len(p); i++ {
		p[i] = multiply(p[i-1], p[i-1])
	}
	return p
}()

// zeros is x^(8·n).
func zeros(n uint32) uint32 {
	product := uint32(1 << 31) // 1
	for i := 3; n > 0; i, n = i+1, n>>1 {
		if n&1 == 1 {
			product = multiply(powers[i], product)
		}
	}
	return product
}

// multiply is the product of two polynomials modulo the one of CRC-32, all reflected.
func multiply(a, b uint32) uint32 {
	var product uint32
	for bit := uint32(1 << 31); a != 0; bit >>= 1 {
		if a&bit != 0 {
			product ^= b
			a &^= bit
		}
		if b&1 == 1 {
			b = b>>1 ^ crc32.IEEE
		} else {
			b >>= 1
		}
	}
	return product
}
