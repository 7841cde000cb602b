package answer

import "sync"

// Buffer is pooled memory for a response.
type Buffer struct{ Bytes []byte }

// largestKept is the largest buffer that is returned to the pool.
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
