package protobuf

import "google.golang.org/protobuf/encoding/protowire"

// AppendBytes appends a field of bytes.
func AppendBytes[T ~string | ~[]byte](b []byte, number Number, value T) []byte {
	return append(AppendHead(b, number, len(value)), value...)
}

// AppendHead appends what is before the value of a field of bytes: the tag and the size.
func AppendHead(b []byte, number Number, size int) []byte {
	b = protowire.AppendTag(b, number, protowire.BytesType)
	return protowire.AppendVarint(b, uint64(size))
}

// AppendVarint appends a number of variable length.
func AppendVarint(b []byte, number Number, value uint64) []byte {
	b = protowire.AppendTag(b, number, protowire.VarintType)
	return protowire.AppendVarint(b, value)
}

// Size returns the size of a field of bytes whose value has a size.
func Size(number Number, size int) int { return protowire.SizeTag(number) + protowire.SizeBytes(size) }
