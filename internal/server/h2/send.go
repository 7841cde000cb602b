package h2

import (
	"net/http"
	"os"
	"slices"
	"strings"

	"golang.org/x/net/http2/hpack"
)

// piece says what follows a piece of an answer.
type piece int

const (
	pieceOfMore   piece = iota // it may wait until there is more
	pieceAndFlush              // it must be sent now
)

// send queues the head, unless it has been sent, and a piece of the body that is not the last one. It waits until there is space for them.
func (w *response) send(b []byte, p piece) error {
	st, c := w.st, w.st.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := st.sendErrorLocked(); err != nil {
		return err
	}
	if b = w.beginLocked(b, false); len(b) > 0 {
		defer c.stopWaitingLocked(st)
	}
	for len(b) > 0 {
		n, err := c.waitForRoomLocked(st, len(b))
		if err != nil {
			return err
		}
		c.out.data(st.id, b[:n], false)
		b = b[n:]
	}
	if p == pieceAndFlush || len(c.out.frames) >= maxQueued {
		c.flushLocked()
	}
	return nil
}

// beginLocked queues the head, unless it has been sent, and returns what is to be sent of a piece of the body.
func (w *response) beginLocked(b []byte, last bool) []byte {
	w.detectContentType(b)
	if w.head {
		b = nil
	}
	end := last && len(b) == 0 && !w.more
	if !w.headSent {
		w.headSent = true
		w.headLocked(end)
	} else if end {
		w.st.conn.out.data(w.st.id, nil, true)
	}
	return b
}

// sendErrorLocked returns the reason why nothing can be sent on a stream, or nil.
func (st *stream) sendErrorLocked() error {
	switch {
	case st.err != nil:
		return st.err
	case st.conn.err != nil:
		return st.conn.err
	case st.answered:
		return errOver
	case st.writeBy.passed():
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
		o.field(hpack.HeaderField{Name: "date", Value: httpDate.text()})
	}
	o.headers(w.st.id, end)
}

func (w *response) hasTrailers() bool {
	for name := range w.header {
		if strings.HasPrefix(name, http.TrailerPrefix) || slices.Contains(w.trailers, name) {
			return true
		}
	}
	return false
}

// trailersLocked queues the trailers.
func (w *response) trailersLocked() {
	var fields []hpack.HeaderField
	for name, values := range w.header {
		if after, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			fields = appendField(fields, wireName(after), values)
		} else if slices.Contains(w.trailers, name) {
			fields = appendField(fields, wireName(name), values)
		}
	}
	for _, f := range fields {
		w.st.conn.out.field(f)
	}
	w.st.conn.out.headers(w.st.id, true)
}
