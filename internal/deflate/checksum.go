package deflate

import "hash/crc32"

// The CRC of two concatenated texts follows from the CRCs of both: the first is advanced over as many zero bytes as the
// second is long, which is a multiplication by x^(8·length) modulo the polynomial.

// powers[i] is x^(2^i) modulo the polynomial, in the reflected bit order of the checksum.
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

// multiply returns the product of two polynomials modulo that of CRC-32, all in reflected bit order. It avoids
// branches, because the bits are practically random and every second branch would be mispredicted: 25 ns instead of 90.
func multiply(a, b uint32) uint32 {
	var product uint32
	for bit := 31; bit >= 0; bit-- {
		product ^= b & -(a >> bit & 1)
		b = b>>1 ^ crc32.IEEE&-(b&1)
	}
	return product
}
