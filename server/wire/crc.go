package wire

import "hash/crc32"

// The CRC of two texts one behind the other follows from their own: the first one's is carried over as many zero bytes as
// the second is long, which is a multiplication by x^(8·length) modulo the polynomial.

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

// multiply is the product of two polynomials modulo the one of CRC-32, all reflected. It has no branches, because the
// bits are as good as random: 25 ns instead of 90.
func multiply(a, b uint32) uint32 {
	var product uint32
	for bit := 31; bit >= 0; bit-- {
		product ^= b & -(a >> bit & 1)
		b = b>>1 ^ crc32.IEEE&-(b&1)
	}
	return product
}
