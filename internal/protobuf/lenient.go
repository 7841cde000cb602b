package protobuf

// maxDepth is deeper than any message in an API object, but for those of schemas.
const maxDepth = 32

// Everything visits all values of bytes in a message that one of the generated decoders could find, and all in them:
// they accept what a [Scanner] does not, such as numbers and tags of too many bits. Whether a value is a message is not
// known, so what looks like fields in texts is visited as well. The values share the memory of the message, and visit
// may change them.
func Everything(message []byte, visit func(value []byte)) { everything(message, maxDepth, visit) }

func everything(b []byte, depth int, visit func([]byte)) {
	if depth == 0 {
		return
	}
	for len(b) > 0 {
		tag, n := lenientVarint(b)
		if n == 0 {
			return
		}
		b = b[n:]
		size := 0
		switch tag & 7 {
		case 0:
			_, size = lenientVarint(b)
		case 1:
			size = 8
		case 2:
			length, n := lenientVarint(b)
			if n == 0 || length > uint64(len(b)-n) {
				return
			}
			value := b[n : n+int(length)]
			visit(value)
			everything(value, depth-1, visit)
			size = n + int(length)
		case 3, 4: // the fields of a group are visited as if there were none around them
			continue
		case 5:
			size = 4
		}
		if size == 0 || size > len(b) {
			return
		}
		b = b[size:]
	}
}

// lenientVarint reads a number as the generated decoders do: bits beyond the 64th are lost. The size is 0 if there is
// no number.
func lenientVarint(b []byte) (value uint64, size int) {
	for i := 0; i < len(b) && i < 10; i++ {
		value |= uint64(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			return value, i + 1
		}
	}
	return 0, 0
}
