package h2

import (
	"errors"
	"net/http"
	"strconv"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2/hpack"
)

// response is an answer, as its handler sees it. Until somebody asks for more haste, it is gathered and sent as a whole, if
// it is not long.
type response struct {
	st     *stream
	header http.Header

	status   int
	fields   []hpack.HeaderField  // the head, as it was when the status was set
	pairs    *[]hpack.HeaderField // where the fields' memory comes from and goes to
	headSent bool                 // the head has been sent; guarded by the connection's mu
	buffer   *[]byte              // of what was written and has not been sent: see gathered
	charged  int                  // the buffer's part of the connection's gathered bytes
	bodyless bool                 // of a status that has no body
	head     bool                 // asked for the head alone
	untyped  bool                 // its type is to be guessed
	dated    bool                 // its handler has said when it is of, or that it shall not say
	last     bool                 // the handler wants to have no more requests of the connection
	length   int64                // declared; less than zero if it was not
	written  int64
	trailers []string
	over     bool // the handler has returned
	more     bool // there are trailers to send
}

// mostGathered is how much an answer may have before it is sent as it comes.
const mostGathered = 32 << 10

// leastGathered is how much an answer may have gathered even if all answers of its connection have more than the connection may.
const leastGathered = 2 << 10

func (w *response) begin(st *stream) {
	w.st, w.header, w.length = st, make(http.Header, 8), -1
	w.head = st.request.Method == http.MethodHead
}

// Header implements http.ResponseWriter.
func (w *response) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *response) WriteHeader(status int) {
	if !w.over {
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
		w.inform(status)
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
	w.fields = w.compose((*w.pairs)[:0])
}

// inform sends a head that says that the answer is still to come.
func (w *response) inform(status int) {
	fields := w.compose(nil)
	w.trailers = nil
	st, c := w.st, w.st.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if st.err != nil || c.err != nil {
		return
	}
	c.out.status(status)
	for _, f := range fields {
		if f.Name != "content-length" { // it is of the answer
			c.out.field(f)
		}
	}
	c.out.headers(st.id, false)
	c.flushLocked()
}

// Write implements http.ResponseWriter.
func (w *response) Write(b []byte) (int, error) {
	if w.over {
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
	if w.gather(b) || w.head {
		return len(b), nil
	}
	if gathered := w.gathered(); len(gathered) > 0 {
		if err := w.send(gathered, pieceOfMore); err != nil {
			return 0, err
		}
		*w.buffer = gathered[:0]
	}
	return w.sent(b, w.send(b, pieceOfMore))
}

// gather keeps what is written until the answer is whole. It is false if the answer is too long for that, or the connection has too
// many bytes of others already: a client that takes none of its answers must not make the server hold all of them.
func (w *response) gather(b []byte) bool {
	c, n := w.st.conn, len(w.gathered())+len(b)
	if n > mostGathered || n > leastGathered && c.gathered.Load() > c.mostGathered() {
		return false
	}
	if w.buffer == nil {
		w.buffer = buffers.Get().(*[]byte)
	}
	*w.buffer = append(*w.buffer, b...)
	if more := cap(*w.buffer) - w.charged; more > 0 {
		w.charged += more
		c.gathered.Add(int64(more))
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

// guess says what an answer that begins so is, when its handler did not.
func (w *response) guess(b []byte) {
	if w.untyped && len(b) > 0 {
		w.untyped = false
		w.fields = append(w.fields, hpack.HeaderField{Name: "content-type", Value: http.DetectContentType(b)})
	}
}

// FlushError sends what has been written.
func (w *response) FlushError() error {
	if w.over {
		return errOver
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	err := w.send(w.gathered(), pieceAndHaste)
	if w.buffer != nil {
		*w.buffer = (*w.buffer)[:0]
	}
	return err
}

// Flush implements http.Flusher.
func (w *response) Flush() { _ = w.FlushError() }

// finish sends the rest of the answer.
func (w *response) finish() error {
	w.over = true
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
	return w.send(w.gathered(), pieceAtEnd)
}

// gathered is what was written and has not been sent.
func (w *response) gathered() []byte {
	if w.buffer == nil {
		return nil
	}
	return *w.buffer
}

// release lets others use the memory of an answer that is over.
func (w *response) release() {
	recycle(w.buffer)
	w.buffer = nil
	w.st.conn.gathered.Add(-int64(w.charged))
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
