package h2

import (
	"context"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// stream is one request and its answer.
type stream struct {
	conn    *conn
	id      uint32
	request *http.Request
	cancel  context.CancelFunc
	answer  response
	tooLong bool // the head is incomplete

	// The connection's mu guards all that follows.
	changed   sync.Cond // something below has
	err       error     // why nothing more can be sent or received
	complete  bool      // all of the request has come
	answered  bool      // all of the answer has been sent
	closed    bool      // the handler does not want the body
	hesitates bool      // the client sends the body only if it is told to
	queued    bool      // waits in outgoing
	window    int64     // what may be sent
	receive   window
	body      received
	declared  int64 // how long the body shall be; less than zero if that was not said
	received  int64
	readBy    deadline
	writeBy   deadline
}

// deadline is a time by which something should have happened.
type deadline struct {
	passed bool
	timer  *time.Timer
}

// do runs the handler.
func (st *stream) do() {
	defer st.finish()
	if st.tooLong {
		http.Error(&st.answer, "the request's header is too long", http.StatusRequestHeaderFieldsTooLarge)
		return
	}
	st.conn.handler.ServeHTTP(&st.answer, st.request)
}

// finish sends what the handler has left, and lets go of the stream.
func (st *stream) finish() {
	code := http2.ErrCodeNo
	if p := recover(); p != nil {
		code = http2.ErrCodeInternal
		if p != http.ErrAbortHandler {
			st.conn.server.o.Logger.Error("panic while serving", "remote", st.conn.remote, "panic", p, "stack", string(debug.Stack()))
		}
	} else if st.answer.finish() != nil {
		code = http2.ErrCodeInternal
	}
	st.cancel()
	st.answer.release()
	c := st.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	st.readBy.stop()
	st.writeBy.stop()
	c.finishLocked(st, code)
	if c.running--; c.running == 0 {
		c.restLocked()
		c.partLocked()
	}
	c.flushLocked()
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}

// finishLocked ends the server's side of a stream. An answer that is not whole is cut off by an error.
func (c *conn) finishLocked(st *stream, code http2.ErrCode) {
	if st.err == nil {
		switch {
		case !st.answered:
			c.out.reset(st.id, code)
			c.forgetLocked(st)
		case !st.complete: // it is not going to be read
			c.out.reset(st.id, http2.ErrCodeNo)
			c.forgetLocked(st)
		}
		st.answered = true
	}
	if c.err == nil {
		c.out.windowUpdate(0, c.receive.give(int64(st.body.drop())))
	}
}

// endLocked ends a stream before its time: who waits for it hears why.
func (c *conn) endLocked(st *stream, err error) {
	if st.err != nil {
		return
	}
	st.err = err
	if st.cancel != nil {
		st.cancel()
	}
	st.changed.Broadcast()
	c.forgetLocked(st)
}

// forgetLocked removes a stream that both sides have finished with.
func (c *conn) forgetLocked(st *stream) {
	delete(c.streams, st.id)
	if len(c.streams) == 0 {
		c.restLocked()
	}
}

// start lets the handlers run of requests whose heads have come. They are held back until it is seen whether their bodies
// have come with them, so that most need not wait for those.
func (c *conn) startHandlers() {
	for i, st := range c.begun {
		c.server.crew.start(st)
		c.begun[i] = nil
	}
	c.begun = c.begun[:0]
}

// SetReadDeadline says by when the body must have come.
func (w *response) SetReadDeadline(t time.Time) error { return w.st.conn.within(w.st, &w.st.readBy, t) }

// SetWriteDeadline says by when the client must have taken what is being written.
func (w *response) SetWriteDeadline(t time.Time) error {
	return w.st.conn.within(w.st, &w.st.writeBy, t)
}

func (c *conn) within(st *stream, d *deadline, t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	d.stop()
	*d = deadline{}
	if t.IsZero() || st.answered || st.err != nil {
		return nil
	}
	d.timer = time.AfterFunc(time.Until(t), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		d.passed = true
		st.changed.Broadcast()
	})
	return nil
}
