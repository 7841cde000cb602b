package deflate

import (
	"encoding/binary"
	"hash/crc32"
)

var gzipHead = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255}

// emptyBlock is a stored deflate block of no bytes.
var emptyBlock = []byte{0, 0, 0, 0xff, 0xff}

// finalBlock is an empty block that is the last one.
var finalBlock = []byte{0x03, 0x00}

// Stream assembles one gzip stream.
type Stream struct {
	sum, length uint32
	held        bool // a reader may hold back the last text until a flush
}

// AppendHead begins the stream.
func (s *Stream) AppendHead(b []byte) []byte { return append(b, gzipHead...) }

// AppendBlock appends a block.
func (s *Stream) AppendBlock(b []byte, block Block) []byte {
	s.sum = multiply(block.shift(), s.sum) ^ block.sum()
	s.length += block.length()
	s.held = false // the block ends with an empty deflate block
	return append(b, block.deflated()...)
}

// AppendText appends text that is too short to be compressed, as a stored block.
func (s *Stream) AppendText(b, text []byte) []byte {
	for len(text) > 0 {
		part := text[:min(len(text), 65535)]
		text = text[len(part):]
		n := uint16(len(part))
		b = append(b, 0, byte(n), byte(n>>8), byte(^n), byte(^n>>8))
		b = append(b, part...)
		s.sum = crc32.Update(s.sum, crc32.IEEETable, part)
		s.length += uint32(len(part))
		s.held = true
	}
	return b
}

// AppendFlush makes readers deliver everything before it: they hold back what they have unpacked until an empty block
// or a full window.
func (s *Stream) AppendFlush(b []byte) []byte {
	if !s.held {
		return b
	}
	s.held = false
	return append(b, emptyBlock...)
}

// AppendEnd closes the stream.
func (s *Stream) AppendEnd(b []byte) []byte {
	b = append(b, finalBlock...)
	b = binary.LittleEndian.AppendUint32(b, s.sum)
	return binary.LittleEndian.AppendUint32(b, s.length)
}
