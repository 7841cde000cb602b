package answer

import "sync"

// Buffer is reusable memory for an answer.
type Buffer struct{ Bytes []byte }

// largestKept keeps one huge answer from holding on to its memory for ever.
const largestKept = 512 << 10

var buffers = sync.Pool{New: func() any { return &Buffer{make([]byte, 0, 8<<10)} }}

func GetBuffer() *Buffer { return buffers.Get().(*Buffer) }

func (b *Buffer) Free() {
	if cap(b.Bytes) > largestKept {
		return
	}
	b.Bytes = b.Bytes[:0]
	buffers.Put(b)
}
