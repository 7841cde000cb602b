package h2

import (
	"errors"
	"net/http"
	"strconv"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2/hpack"
)

// response is an http.ResponseWriter. Unless the handler flushes, a short answer is buffered and sent as a whole.
type response struct {
	st     *stream
	header http.Header

	status   int
	fields   []hpack.HeaderField  // the head, as it was when the status was set
	pairs    *[]hpack.HeaderField // where the fields' memory comes from and returns to
	headSent bool                 // the head has been sent; guarded by the connection's mu
	buffer   *[]byte              // what was written and has not been sent: see buffered
	charged  int                  // the buffer's part of the connection's buffered bytes
	bodyless bool                 // the status allows no body
	head     bool                 // the request has the method HEAD
	untyped  bool                 // the content type is to be detected
	dated    bool                 // the handler has set the field Date, or removed it
	last     bool                 // the handler has asked to close the connection
	length   int64                // the declared length; negative if none
	written  int64
	trailers []string
	returned bool   // the handler has returned
	more     bool   // there are trailers to send
	rest     []byte // what is left of the answer after the handler has returned; guarded by the connection's mu
}

// maxBuffered is how much of an answer is buffered before it is sent in pieces.
const maxBuffered = 32 << 10

// minBuffered is how much an answer may always buffer, even if the connection's answers have reached their common
// bound.
const minBuffered = 2 << 10

func (r *response) begin(st *stream) {
	r.st, r.header, r.length = st, make(http.Header, 8), -1
	r.head = st.request.Method == http.MethodHead
}

// Header implements http.ResponseWriter.
func (r *response) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *response) WriteHeader(status int) {
	if !r.returned {
		r.setStatus(status)
	}
}

func (r *response) setStatus(status int) {
	switch {
	case r.status != 0:
		return
	case status < 100 || status > 999:
		panic("h2: no such status: " + strconv.Itoa(status))
	case status < 200:
		r.sendInformational(status)
		return
	}
	r.status = status
	r.bodyless = status == http.StatusNoContent || status == http.StatusNotModified
	if lengths := r.header["Content-Length"]; len(lengths) > 0 {
		if n, err := strconv.ParseUint(lengths[0], 10, 63); err == nil && len(lengths) == 1 {
			r.length = int64(n)
		} else {
			delete(r.header, "Content-Length")
		}
	}
	_, typed := r.header["Content-Type"]
	r.untyped = !typed && !r.bodyless && r.header.Get("Content-Encoding") == ""
	_, r.dated = r.header["Date"]
	r.last = httpguts.HeaderValuesContainsToken(r.header["Connection"], "close")
	r.pairs = pairs.Get().(*[]hpack.HeaderField)
	r.fields = r.appendHead((*r.pairs)[:0])
}

// sendInformational sends an informational (1xx) head.
func (r *response) sendInformational(status int) {
	fields := r.appendHead(nil)
	r.trailers = nil
	st, c := r.st, r.st.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if st.err != nil || c.err != nil {
		return
	}
	c.out.status(status)
	for _, f := range fields {
		if f.Name != "content-length" { // it belongs to the final answer
			c.out.field(f)
		}
	}
	c.out.headers(st.id, false)
	c.flushLocked()
}

// Write implements http.ResponseWriter.
func (r *response) Write(b []byte) (int, error) {
	if r.returned {
		return 0, errOver
	}
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	if r.bodyless {
		return 0, http.ErrBodyNotAllowed
	}
	if r.written += int64(len(b)); r.length >= 0 && r.written > r.length {
		return 0, http.ErrContentLength
	}
	if r.headSent && !r.head {
		return r.sent(b, r.send(b, pieceOfMore))
	}
	if r.keepBuffered(b) || r.head {
		return len(b), nil
	}
	if buffered := r.buffered(); len(buffered) > 0 {
		if err := r.send(buffered, pieceOfMore); err != nil {
			return 0, err
		}
		*r.buffer = buffered[:0]
	}
	return r.sent(b, r.send(b, pieceOfMore))
}

// keepBuffered buffers what is written until the answer is complete. It returns false if the answer is too long for
// that, or if the connection buffers too much already: a client that does not read its answers must not make the server
// hold all of them.
func (r *response) keepBuffered(b []byte) bool {
	c, n := r.st.conn, len(r.buffered())+len(b)
	if n > maxBuffered || n > minBuffered && c.buffered.Load() > c.maxBuffered() {
		return false
	}
	if r.buffer == nil {
		r.buffer = buffers.Get().(*[]byte)
	}
	*r.buffer = append(*r.buffer, b...)
	if more := cap(*r.buffer) - r.charged; more > 0 {
		r.charged += more
		c.buffered.Add(int64(more))
	}
	return true
}

var errOver = errors.New("h2: the handler has returned")

func (r *response) sent(b []byte, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

// WriteString implements io.StringWriter.
func (r *response) WriteString(s string) (int, error) { return r.Write([]byte(s)) }

// detectContentType detects the content type of an answer from its first bytes, if the handler has not set it.
func (r *response) detectContentType(b []byte) {
	if r.untyped && len(b) > 0 {
		r.untyped = false
		r.fields = append(r.fields, hpack.HeaderField{Name: "content-type", Value: http.DetectContentType(b)})
	}
}

// FlushError sends what has been written.
func (r *response) FlushError() error {
	if r.returned {
		return errOver
	}
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	err := r.send(r.buffered(), pieceAndFlush)
	if r.buffer != nil {
		*r.buffer = (*r.buffer)[:0]
	}
	return err
}

// Flush implements http.Flusher.
func (r *response) Flush() { _ = r.FlushError() }

// complete decides what the answer says now that the handler has returned.
func (r *response) complete() error {
	if r.status == 0 {
		r.setStatus(http.StatusOK)
	}
	r.more = !r.head && !r.bodyless && r.hasTrailers()
	if r.length < 0 && !r.headSent && !r.bodyless && (!r.head || r.written > 0) {
		r.length = r.written
		r.fields = append(r.fields, hpack.HeaderField{Name: "content-length", Value: strconv.FormatInt(r.written, 10), Sensitive: true})
	}
	if r.length >= 0 && r.written != r.length && !r.bodyless && !r.head {
		return http.ErrContentLength
	}
	return nil
}

// buffered returns what was written and has not been sent.
func (r *response) buffered() []byte {
	if r.buffer == nil {
		return nil
	}
	return *r.buffer
}

// release returns the memory of an answer to the pools, when its handler has returned.
func (r *response) release() {
	recycle(r.buffer)
	r.buffer = nil
	r.st.conn.buffered.Add(-int64(r.charged))
	r.charged = 0
	if r.pairs != nil {
		clear(r.fields)
		*r.pairs = r.fields[:0]
		pairs.Put(r.pairs)
		r.fields, r.pairs = nil, nil
	}
}

var _ interface {
	http.ResponseWriter
	http.Flusher
} = (*response)(nil)
