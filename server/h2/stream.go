package h2

import (
	"context"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// stream is one request and its answer.
type stream struct {
	conn      *conn
	id        uint32
	request   *http.Request
	cancel    context.CancelFunc
	answer    response
	tooLong   bool // the head is incomplete
	announced bool // fields that may follow the body
	memory    int  // of the head, and of what followed the body; guarded by the connection's mu

	// The connection's mu guards all that follows.
	changed         sync.Cond // something below has
	err             error     // why nothing more can be sent or received
	complete        bool      // all of the request has come
	answered        bool      // all of the answer has been sent
	closed          bool      // the handler does not want the body
	expectsContinue bool      // the client sends the body only if it is told to
	queued          bool      // waits in outgoing
	restBounded     bool      // the handler has returned, and the rest of its answer has a deadline
	next            bool      // has waited there, and it is its turn
	window          int64     // what may be sent
	receive         window
	body            received
	trailer         []hpack.HeaderField // what has come after the body
	declared        int64               // how long the body shall be; less than zero if that was not said
	received        int64
	readBy          deadline
	writeBy         deadline
}

// deadline is a time by which something should have happened; the zero time is none. There is a timer only while somebody waits.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

// Do implements crew.Task: it runs the handler.
func (st *stream) Do() {
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
		st.answer.over = true
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
	c.handlerReturnedLocked(st)
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
	c.dropLocked(st)
}

// dropLocked forgets what has come of a body and is not going to be read.
func (c *conn) dropLocked(st *stream) {
	if n := st.body.drop(); c.err == nil {
		c.skipLocked(n)
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
		c.updateIdleLocked()
	}
}

// handlerReturnedLocked notes that a handler has returned.
func (c *conn) handlerReturnedLocked(st *stream) {
	c.memory -= st.memory
	if c.running--; c.running == 0 {
		c.updateIdleLocked()
	}
}

// startLocked runs the handlers of the requests whose heads have come. They have been held back until everything that came
// with the heads was read: most find their whole body there, and those that were cancelled at once are not run.
func (c *conn) startLocked() {
	for i, st := range c.begun {
		if st.err == nil {
			c.server.crew.Start(st)
		} else {
			c.dropLocked(st)
			c.handlerReturnedLocked(st)
		}
		c.begun[i] = nil
	}
	c.begun = c.begun[:0]
}

// SetReadDeadline says by when the body must have come.
func (w *response) SetReadDeadline(t time.Time) error { return w.st.within(&w.st.readBy, t) }

// SetWriteDeadline says by when the client must have taken what is being written.
func (w *response) SetWriteDeadline(t time.Time) error { return w.st.within(&w.st.writeBy, t) }

// EnableFullDuplex is what HTTP/2 always does.
func (w *response) EnableFullDuplex() error { return nil }

func (st *stream) within(d *deadline, t time.Time) error {
	st.conn.mu.Lock()
	defer st.conn.mu.Unlock()
	d.stop()
	*d = deadline{at: t}
	st.changed.Broadcast() // a goroutine that waits looks at the new deadline
	return nil
}

// waitLocked waits until something of the stream has changed, or a deadline has passed.
func (st *stream) waitLocked(d *deadline) {
	if d.timer == nil && !d.at.IsZero() {
		d.timer = time.AfterFunc(time.Until(d.at), func() {
			st.conn.mu.Lock()
			defer st.conn.mu.Unlock()
			st.changed.Broadcast()
		})
	}
	st.changed.Wait()
}

// boundRestLocked bounds how long a client may take over what its handler has left to be sent.
func (st *stream) boundRestLocked() {
	if st.restBounded {
		return
	}
	st.restBounded = true
	if end := time.Now().Add(st.conn.server.o.WriteTimeout); st.writeBy.at.IsZero() || end.Before(st.writeBy.at) {
		st.writeBy.stop()
		st.writeBy = deadline{at: end}
	}
}
