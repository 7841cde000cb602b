package h2

import (
	"bytes"
	"time"

	"golang.org/x/net/http2"
)

// When a handler has returned, no goroutine waits until the client has read the rest of its answer: a client that reads
// nothing would hold a goroutine, a request and a buffer for each of its streams. The stream keeps a copy of the rest,
// and whoever makes space for it queues it.

// sendRestLocked queues what the windows allow of the rest of an answer. It returns false if something is left. Then
// the stream waits for space.
func (c *conn) sendRestLocked(st *stream) bool {
	w := &st.answer
	for len(w.rest) > 0 {
		n := c.takeRoomLocked(st, len(w.rest))
		if n == 0 {
			st.next = false
			c.out.queueLocked(st)
			return false
		}
		c.out.data(st.id, w.rest[:n], n == len(w.rest) && !w.more)
		w.rest = w.rest[n:]
	}
	st.next = false
	if w.more {
		w.trailersLocked()
	}
	st.answered = true
	if w.last {
		c.drainLocked()
	}
	if st.complete {
		c.forgetLocked(st)
	}
	return true
}

// shedLocked releases all that a stream does not need to send the rest of its answer, and bounds how long the client
// may take to read that.
func (st *stream) shedLocked() {
	c, w := st.conn, &st.answer
	w.rest = bytes.Clone(w.rest)
	w.release()
	w.charged = len(w.rest)
	c.buffered.Add(int64(w.charged))
	if !w.more {
		w.header = nil
	}
	st.request, st.cancel, st.trailer = nil, nil, nil
	st.closed = true
	c.dropLocked(st)
	c.memory -= st.memory
	st.memory = 0
	st.readBy.stop()
	if end := time.Now().Add(c.server.o.WriteTimeout); st.writeBy.at.IsZero() || end.Before(st.writeBy.at) {
		st.writeBy.stop()
		st.writeBy = deadline{at: end}
	}
	st.remindLocked(&st.writeBy)
}

// changedLocked lets a stream go on when something has changed that it may be waiting for: its handler, or the rest of
// its answer.
func (st *stream) changedLocked() {
	if st.answer.rest == nil {
		st.changed.Broadcast()
		return
	}
	err := st.sendErrorLocked()
	if err == nil && !st.conn.sendRestLocked(st) {
		return
	}
	st.conn.concludeLocked(st, err)
}

// concludeLocked releases a stream whose handler has returned, and whose answer has been sent or, because of err,
// cannot be sent.
func (c *conn) concludeLocked(st *stream, err error) {
	code := http2.ErrCodeNo
	if err != nil {
		code = http2.ErrCodeInternal
	}
	c.out.unqueueLocked(st)
	st.answer.rest = nil
	st.answer.release()
	st.readBy.stop()
	st.writeBy.stop()
	c.finishLocked(st, code)
	c.handlerReturnedLocked(st)
}
