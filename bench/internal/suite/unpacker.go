package suite

import (
	"bufio"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// unpacker decompresses a stream that arrives in pieces, in its own goroutine; end waits for that.
type unpacker struct {
	mu     sync.Mutex
	more   *sync.Cond
	bytes  []byte // guarded by mu
	ended  bool   // guarded by mu
	closed chan struct{}
}

func newUnpacker(text func([]byte)) *unpacker {
	u := &unpacker{closed: make(chan struct{})}
	u.more = sync.NewCond(&u.mu)
	go u.run(text)
	return u
}

func (u *unpacker) run(text func([]byte)) {
	defer close(u.closed)
	r, err := gzip.NewReader(bufio.NewReaderSize(u, 4<<10))
	if err != nil {
		return
	}
	b := make([]byte, 8<<10)
	for {
		n, err := r.Read(b)
		text(b[:n])
		if err != nil {
			return
		}
	}
}

// Read implements io.Reader for the decompressor.
func (u *unpacker) Read(b []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for len(u.bytes) == 0 && !u.ended {
		u.more.Wait()
	}
	if len(u.bytes) == 0 {
		return 0, io.EOF
	}
	n := copy(b, u.bytes)
	u.bytes = u.bytes[:copy(u.bytes, u.bytes[n:])]
	return n, nil
}

func (u *unpacker) add(b []byte) {
	u.mu.Lock()
	u.bytes = append(u.bytes, b...)
	u.mu.Unlock()
	u.more.Signal()
}

func (u *unpacker) end() {
	u.mu.Lock()
	u.ended = true
	u.mu.Unlock()
	u.more.Signal()
	<-u.closed
}
