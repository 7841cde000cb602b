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

// send queues the head, unless it has been sent, and a piece of the body that is not the last one. It waits until there
// is space for them.
func (r *response) send(b []byte, p piece) error {
	st, c := r.st, r.st.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := st.sendErrorLocked(); err != nil {
		return err
	}
	if b = r.beginLocked(b, false); len(b) > 0 {
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
func (r *response) beginLocked(b []byte, last bool) []byte {
	r.detectContentType(b)
	if r.head {
		b = nil
	}
	end := last && len(b) == 0 && !r.more
	if !r.headSent {
		r.headSent = true
		r.headLocked(end)
	} else if end {
		r.st.conn.out.data(r.st.id, nil, true)
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

func (r *response) headLocked(end bool) {
	o := &r.st.conn.out
	o.status(r.status)
	for _, f := range r.fields {
		o.field(f)
	}
	if !r.dated {
		o.field(hpack.HeaderField{Name: "date", Value: httpDate.text()})
	}
	o.headers(r.st.id, end)
}

func (r *response) hasTrailers() bool {
	for name := range r.header {
		if strings.HasPrefix(name, http.TrailerPrefix) || slices.Contains(r.trailers, name) {
			return true
		}
	}
	return false
}

// trailersLocked queues the trailers.
func (r *response) trailersLocked() {
	var fields []hpack.HeaderField
	for name, values := range r.header {
		if after, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			fields = appendField(fields, wireName(after), values)
		} else if slices.Contains(r.trailers, name) {
			fields = appendField(fields, wireName(name), values)
		}
	}
	for _, f := range fields {
		r.st.conn.out.field(f)
	}
	r.st.conn.out.headers(r.st.id, true)
}
