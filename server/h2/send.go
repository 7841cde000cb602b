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
	pieceAndHaste              // it shall go now
	pieceAtEnd
)

// send queues the head, if it has not been sent, and a piece of the body. It waits until there is room for it.
func (w *response) send(b []byte, p piece) error {
	st, c := w.st, w.st.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := st.sendErrorLocked(); err != nil {
		return err
	}
	after := p == pieceAtEnd && w.more
	w.guess(b)
	if w.head {
		b = nil
	}
	if !w.headSent {
		w.headSent = true
		w.headLocked(p == pieceAtEnd && len(b) == 0 && !after)
	} else if p == pieceAtEnd && len(b) == 0 && !after {
		c.out.data(st.id, nil, true)
	}
	if len(b) > 0 {
		defer c.out.stopWaitingLocked(st)
	}
	for len(b) > 0 {
		n, err := c.waitForRoomLocked(st, len(b))
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
			c.drainLocked()
		}
		if st.complete {
			c.forgetLocked(st)
		}
		return nil // finish flushes
	}
	if p == pieceAndHaste || len(c.out.frames) >= maxQueued {
		c.flushLocked()
	}
	return nil
}

// sendErrorLocked tells why nothing can be sent on a stream.
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

// trailersLocked sends what follows the body.
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
