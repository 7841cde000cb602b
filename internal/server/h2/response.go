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

// minBuffered is how much an answer may always buffer, even if the connection's answers have reached their common bound.
const minBuffered = 2 << 10

func (w *response) begin(st *stream) {
	w.st, w.header, w.length = st, make(http.Header, 8), -1
	w.head = st.request.Method == http.MethodHead
}

// Header implements http.ResponseWriter.
func (w *response) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *response) WriteHeader(status int) {
	if !w.returned {
		w.setStatus(status)
	}
}

func (w *response) setStatus(status int) {
	switch {
	case w.status != 0:
		return
	case status < 100 || status > 999:
		panic("h2: no such status: " + strconv.Itoa(status))
	case status < 200:
		w.sendInformational(status)
		return
	}
	w.status = status
	w.bodyless = status == http.StatusNoContent || status == http.StatusNotModified
	if lengths := w.header["Content-Length"]; len(lengths) > 0 {
		if n, err := strconv.ParseUint(lengths[0], 10, 63); err == nil && len(lengths) == 1 {
			w.length = int64(n)
		} else {
			delete(w.header, "Content-Length")
		}
	}
	_, typed := w.header["Content-Type"]
	w.untyped = !typed && !w.bodyless && w.header.Get("Content-Encoding") == ""
	_, w.dated = w.header["Date"]
	w.last = httpguts.HeaderValuesContainsToken(w.header["Connection"], "close")
	w.pairs = pairs.Get().(*[]hpack.HeaderField)
	w.fields = w.appendHead((*w.pairs)[:0])
}

// sendInformational sends an informational (1xx) head.
func (w *response) sendInformational(status int) {
	fields := w.appendHead(nil)
	w.trailers = nil
	st, c := w.st, w.st.conn
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
func (w *response) Write(b []byte) (int, error) {
	if w.returned {
		return 0, errOver
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.bodyless {
		return 0, http.ErrBodyNotAllowed
	}
	if w.written += int64(len(b)); w.length >= 0 && w.written > w.length {
		return 0, http.ErrContentLength
	}
	if w.headSent && !w.head {
		return w.sent(b, w.send(b, pieceOfMore))
	}
	if w.keepBuffered(b) || w.head {
		return len(b), nil
	}
	if buffered := w.buffered(); len(buffered) > 0 {
		if err := w.send(buffered, pieceOfMore); err != nil {
			return 0, err
		}
		*w.buffer = buffered[:0]
	}
	return w.sent(b, w.send(b, pieceOfMore))
}

// keepBuffered buffers what is written until the answer is complete. It returns false if the answer is too long for that, or if the connection
// buffers too much already: a client that does not read its answers must not make the server hold all of them.
func (w *response) keepBuffered(b []byte) bool {
	c, n := w.st.conn, len(w.buffered())+len(b)
	if n > maxBuffered || n > minBuffered && c.buffered.Load() > c.maxBuffered() {
		return false
	}
	if w.buffer == nil {
		w.buffer = buffers.Get().(*[]byte)
	}
	*w.buffer = append(*w.buffer, b...)
	if more := cap(*w.buffer) - w.charged; more > 0 {
		w.charged += more
		c.buffered.Add(int64(more))
	}
	return true
}

var errOver = errors.New("h2: the handler has returned")

func (w *response) sent(b []byte, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

// WriteString implements io.StringWriter.
func (w *response) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

// detectContentType detects the content type of an answer from its first bytes, if the handler has not set it.
func (w *response) detectContentType(b []byte) {
	if w.untyped && len(b) > 0 {
		w.untyped = false
		w.fields = append(w.fields, hpack.HeaderField{Name: "content-type", Value: http.DetectContentType(b)})
	}
}

// FlushError sends what has been written.
func (w *response) FlushError() error {
	if w.returned {
		return errOver
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	err := w.send(w.buffered(), pieceAndFlush)
	if w.buffer != nil {
		*w.buffer = (*w.buffer)[:0]
	}
	return err
}

// Flush implements http.Flusher.
func (w *response) Flush() { _ = w.FlushError() }

// complete decides what the answer says now that the handler has returned.
func (w *response) complete() error {
	if w.status == 0 {
		w.setStatus(http.StatusOK)
	}
	w.more = !w.head && !w.bodyless && w.hasTrailers()
	if w.length < 0 && !w.headSent && !w.bodyless && (!w.head || w.written > 0) {
		w.length = w.written
		w.fields = append(w.fields, hpack.HeaderField{Name: "content-length", Value: strconv.FormatInt(w.written, 10), Sensitive: true})
	}
	if w.length >= 0 && w.written != w.length && !w.bodyless && !w.head {
		return http.ErrContentLength
	}
	return nil
}

// buffered returns what was written and has not been sent.
func (w *response) buffered() []byte {
	if w.buffer == nil {
		return nil
	}
	return *w.buffer
}

// release returns the memory of an answer to the pools, when its handler has returned.
func (w *response) release() {
	recycle(w.buffer)
	w.buffer = nil
	w.st.conn.buffered.Add(-int64(w.charged))
	w.charged = 0
	if w.pairs != nil {
		clear(w.fields)
		*w.pairs = w.fields[:0]
		pairs.Put(w.pairs)
		w.fields, w.pairs = nil, nil
	}
}

var _ interface {
	http.ResponseWriter
	http.Flusher
} = (*response)(nil)
