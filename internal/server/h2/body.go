package h2

import (
	"io"
	"net/http"
	"os"
	"sync"
)

// received are the bytes of a body that have arrived and have not been read.
type received struct {
	buffer *[]byte
	at     int
}

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// maxPooled is the largest buffer that is kept for reuse.
const maxPooled = 64 << 10

func recycle(b *[]byte) {
	if b != nil && cap(*b) <= maxPooled {
		*b = (*b)[:0]
		buffers.Put(b)
	}
}

// add appends a piece. When the larger part of the buffer has been read, that part is reused: otherwise a body that is
// read more slowly than it arrives would be kept as a whole.
func (r *received) add(b []byte) {
	if r.buffer == nil {
		r.buffer = buffers.Get().(*[]byte)
	}
	if r.at > len(*r.buffer)/2 {
		n := copy(*r.buffer, (*r.buffer)[r.at:])
		*r.buffer, r.at = (*r.buffer)[:n], 0
	}
	*r.buffer = append(*r.buffer, b...)
}

func (r *received) size() int {
	if r.buffer == nil {
		return 0
	}
	return len(*r.buffer) - r.at
}

// read reads what has arrived, as far as it fits into p.
func (r *received) read(p []byte) int {
	n := copy(p, (*r.buffer)[r.at:])
	if r.at += n; r.at == len(*r.buffer) {
		*r.buffer, r.at = (*r.buffer)[:0], 0
	}
	return n
}

// drop discards what has not been read, and returns its length.
func (r *received) drop() int {
	n := r.size()
	recycle(r.buffer)
	*r = received{}
	return n
}

// body is a request's body, as its handler sees it.
type body struct{ st *stream }

// Read implements io.Reader.
func (b body) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	st, c := b.st, b.st.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sendContinueLocked(st)
	for st.body.size() == 0 {
		switch {
		case st.closed || st.answered:
			return 0, http.ErrBodyReadAfterClose
		case st.complete:
			st.fillTrailer()
			return 0, io.EOF
		case st.err != nil:
			return 0, st.err
		case st.readBy.passed():
			return 0, os.ErrDeadlineExceeded
		}
		st.waitLocked(&st.readBy)
	}
	n := st.body.read(p)
	c.creditLocked(st, n)
	return n, nil
}

// fillTrailer sets the announced trailers to the values that have arrived. The map belongs to the handler.
func (st *stream) fillTrailer() {
	for _, field := range st.trailer {
		name := http.CanonicalHeaderKey(field.Name)
		if values, announced := st.request.Trailer[name]; announced {
			st.request.Trailer[name] = append(values, field.Value)
		}
	}
	st.trailer = nil
}

// Close implements io.Closer.
func (b body) Close() error {
	st, c := b.st, b.st.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	st.closed = true
	c.creditLocked(st, st.body.drop())
	st.changed.Broadcast()
	return nil
}

// sendContinueLocked sends 100 Continue to a client that waits for it before it sends its body.
func (c *conn) sendContinueLocked(st *stream) {
	if !st.expectsContinue || st.body.size() > 0 || st.complete || st.err != nil || st.answer.headSent {
		return
	}
	st.expectsContinue = false
	c.out.status(100)
	c.out.headers(st.id, false)
	c.flushLocked()
}

// creditLocked lets the client send as many bytes as have been read.
func (c *conn) creditLocked(st *stream, n int) {
	ofConn, ofStream := c.receive.give(n), uint32(0)
	if !st.complete && st.err == nil {
		ofStream = st.receive.give(n)
	}
	if ofConn == 0 && ofStream == 0 || c.err != nil {
		return
	}
	c.out.windowUpdate(0, ofConn)
	c.out.windowUpdate(st.id, ofStream)
	c.flushLocked()
}
