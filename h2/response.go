package h2

import (
	"errors"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2/hpack"
)

// response is an answer, as its handler sees it. Until somebody asks for more haste, it is gathered and sent as a whole, if
// it is not long.
type response struct {
	st     *stream
	header http.Header

	status   int
	fields   []hpack.HeaderField // the head, as it was when the status was set
	headed   bool                // the head has been sent; guarded by the connection's mu
	buffer   *[]byte             // what was written and has not been sent
	bodyless bool                // of a status that has no body
	head     bool                // asked for the head alone
	untyped  bool                // its type is to be guessed
	dated    bool                // its handler has said when it is of, or that it shall not say
	last     bool                // the handler wants to have no more requests of the connection
	length   int64               // declared; less than zero if it was not
	written  int64
	trailers []string
	over     bool // the handler has returned
	more     bool // there are trailers to send
}

// mostGathered is how much an answer may have before it is sent as it comes.
const mostGathered = 32 << 10

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
	w.fields = w.compose(pairs.Get().([]hpack.HeaderField)[:0])
}

// pairs are slices that are used again. An allocation for each time that one is put back is less than one that has to grow.
var pairs = sync.Pool{New: func() any { return make([]hpack.HeaderField, 0, 16) }}

// compose gathers the head's fields.
func (w *response) compose(fields []hpack.HeaderField) []hpack.HeaderField {
	for name, values := range w.header {
		wire := onWire(name)
		switch wire {
		case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade":
			continue
		case "trailer":
			for _, v := range values {
				for name := range strings.SplitSeq(v, ",") {
					if name = http.CanonicalHeaderKey(strings.TrimSpace(name)); httpguts.ValidTrailerHeader(name) {
						w.trailers = append(w.trailers, name)
					}
				}
			}
		}
		if strings.HasPrefix(name, http.TrailerPrefix) || slices.Contains(w.trailers, name) {
			continue
		}
		fields = appendField(fields, wire, values)
	}
	return fields
}

func appendField(fields []hpack.HeaderField, wire string, values []string) []hpack.HeaderField {
	if wire == "" {
		return fields
	}
	for _, v := range values {
		if httpguts.ValidHeaderFieldValue(v) {
			// What is different each time would only push the rest out of the table of fields that were sent before.
			fields = append(fields, hpack.HeaderField{Name: wire, Value: v, Sensitive: wire == "content-length" || wire == "audit-id"})
		}
	}
	return fields
}

// wires are how the fields of an http.Header are called on the wire, for those that are common.
var wires = sync.OnceValue(func() map[string]string {
	m := map[string]string{}
	for wire, name := range common() {
		m[name] = wire
	}
	return m
})

// onWire is how a field is called in HTTP/2; empty if there can be no such field.
func onWire(name string) string {
	if wire, ok := wires()[name]; ok {
		return wire
	}
	if !httpguts.ValidHeaderFieldName(name) {
		return ""
	}
	return strings.ToLower(name)
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
	if w.headed && !w.head {
		return w.sent(b, w.send(b, pieceOfMore))
	}
	if w.buffer == nil {
		w.buffer = buffers.Get().(*[]byte)
	}
	switch gathered := *w.buffer; {
	case len(gathered)+len(b) <= mostGathered:
		*w.buffer = append(gathered, b...)
		return len(b), nil
	case w.head:
		return len(b), nil
	case len(gathered) > 0:
		if err := w.send(gathered, pieceOfMore); err != nil {
			return 0, err
		}
		*w.buffer = gathered[:0]
	}
	return w.sent(b, w.send(b, pieceOfMore))
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
	var b []byte
	if w.buffer != nil {
		b = *w.buffer
	}
	err := w.send(b, pieceAndHaste)
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
	var b []byte
	if w.buffer != nil {
		b = *w.buffer
	}
	if w.status == 0 {
		w.setStatus(http.StatusOK)
	}
	w.more = !w.head && !w.bodyless && w.hasTrailers()
	if w.length < 0 && !w.headed && !w.bodyless && (!w.head || w.written > 0) {
		w.length = w.written
		w.fields = append(w.fields, hpack.HeaderField{Name: "content-length", Value: strconv.FormatInt(w.written, 10), Sensitive: true})
	}
	if w.length >= 0 && w.written != w.length && !w.bodyless && !w.head {
		return http.ErrContentLength
	}
	return w.send(b, pieceAtEnd)
}

func (w *response) release() {
	recycle(w.buffer)
	w.buffer = nil
	if w.fields != nil {
		clear(w.fields)
		pairs.Put(w.fields[:0])
		w.fields = nil
	}
}

// piece says what follows a piece of an answer.
type piece int

const (
	pieceOfMore   piece = iota // it may wait until there is more
	pieceAndHaste              // it shall go now
	pieceAtEnd
)

// send queues the head, if it has not been sent, and a piece of the body. It waits until there is room for it.
func (w *response) send(b []byte, p piece) error {
	st, c := w.st, w.st.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := st.usableLocked(); err != nil {
		return err
	}
	after := p == pieceAtEnd && w.more
	w.guess(b)
	if w.head {
		b = nil
	}
	if !w.headed {
		w.headed = true
		w.headLocked(p == pieceAtEnd && len(b) == 0 && !after)
	} else if p == pieceAtEnd && len(b) == 0 && !after {
		c.out.data(st.id, nil, true)
	}
	if len(b) > 0 {
		defer c.out.leaveLocked(st)
	}
	for len(b) > 0 {
		n, err := c.roomLocked(st, len(b))
		if err != nil {
			return err
		}
		c.out.data(st.id, b[:n], p == pieceAtEnd && n == len(b) && !after)
		b = b[n:]
	}
	if after {
		w.trailersLocked()
	}
	if p == pieceAtEnd {
		st.answered = true
		if w.last {
			c.leaveLocked()
		}
		if st.complete {
			c.forgetLocked(st)
		}
		return nil // finish flushes
	}
	if p == pieceAndHaste || len(c.out.frames) >= plenty {
		c.flushLocked()
	}
	return nil
}

// usableLocked tells why nothing can be sent on a stream.
func (st *stream) usableLocked() error {
	switch {
	case st.err != nil:
		return st.err
	case st.conn.err != nil:
		return st.conn.err
	case st.answered:
		return errOver
	case st.writeBy.passed:
		return os.ErrDeadlineExceeded
	}
	return nil
}

func (w *response) headLocked(end bool) {
	o := &w.st.conn.out
	o.status(w.status)
	for _, f := range w.fields {
		o.field(f)
	}
	if !w.dated {
		o.field(hpack.HeaderField{Name: "date", Value: today.text()})
	}
	o.headers(w.st.id, end)
}

func (o *outgoing) status(code int) {
	text := "200"
	if code != http.StatusOK {
		text = strconv.Itoa(code)
	}
	o.field(hpack.HeaderField{Name: ":status", Value: text})
}

func (w *response) hasTrailers() bool {
	for name := range w.header {
		if strings.HasPrefix(name, http.TrailerPrefix) || slices.Contains(w.trailers, name) {
			return true
		}
	}
	return false
}

// trailersLocked sends what follows the body.
func (w *response) trailersLocked() {
	var fields []hpack.HeaderField
	for name, values := range w.header {
		if after, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			fields = appendField(fields, onWire(after), values)
		} else if slices.Contains(w.trailers, name) {
			fields = appendField(fields, onWire(name), values)
		}
	}
	for _, f := range fields {
		w.st.conn.out.field(f)
	}
	w.st.conn.out.headers(w.st.id, true)
}

// clock tells the time as HTTP does, and makes the text of a second once.
type clock struct{ now atomic.Pointer[second] }

type second struct {
	unix int64
	text string
}

var today clock

func (c *clock) text() string {
	now := time.Now()
	if s := c.now.Load(); s != nil && s.unix == now.Unix() {
		return s.text
	}
	s := &second{now.Unix(), now.UTC().Format(http.TimeFormat)}
	c.now.Store(s)
	return s.text
}

var _ interface {
	http.ResponseWriter
	http.Flusher
} = (*response)(nil)
