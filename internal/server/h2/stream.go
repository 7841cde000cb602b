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
	tooLong   bool // the head exceeds Options.MaxHeader and is incomplete
	announced bool // trailers were announced
	starting  bool // it has been started, and has neither said that it waits for its turn nor ended; used by its handler
	memory    int  // of the head and the trailers; guarded by the connection's mu

	// The connection's mu guards everything below.
	changed         sync.Cond // one of the fields below has changed
	err             error     // why nothing more can be sent or received
	complete        bool      // the whole request has arrived
	answered        bool      // the whole answer has been sent
	closed          bool      // the handler has closed the body
	expectsContinue bool      // the client sends the body only after 100 Continue
	queued          bool      // waits in outgoing
	next            bool      // it has waited, and it is now its turn
	window          int64     // how much may be sent
	receive         window
	body            received
	trailer         []hpack.HeaderField // the trailers that have arrived
	declared        int64               // the declared length of the body; negative if none
	received        int64
	readBy          deadline
	writeBy         deadline
}

// deadline is a time by which something must have happened; zero means none. It has a timer only while a goroutine
// waits for it.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

// Do implements workers.Task: it runs the handler.
func (st *stream) Do() {
	defer st.finish()
	if st.tooLong {
		http.Error(&st.answer, "the request's header is too long", http.StatusRequestHeaderFieldsTooLarge)
		return
	}
	st.conn.handler.ServeHTTP(&st.answer, st.request)
}

// finish sends the rest of the answer when the handler has returned.
func (st *stream) finish() {
	c, w, err := st.conn, &st.answer, error(nil)
	w.returned = true
	st.queuedUp()
	if p := recover(); p != nil {
		err = http.ErrAbortHandler
		if p != http.ErrAbortHandler {
			c.server.o.Logger.Error("panic while serving", "remote", c.remote, "panic", p, "stack", string(debug.Stack()))
		}
	} else {
		err = w.complete()
	}
	st.cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		err = st.sendErrorLocked()
	}
	if err == nil {
		w.rest = w.beginLocked(w.buffered(), true)
		if !c.sendRestLocked(st) {
			st.shedLocked()
			c.flushLocked()
			return
		}
	}
	c.concludeLocked(st, err)
	c.flushLocked()
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}

// finishLocked ends the server's side of a stream. An incomplete answer is cut off with an error.
func (c *conn) finishLocked(st *stream, code http2.ErrCode) {
	if st.err == nil {
		switch {
		case !st.answered:
			c.out.reset(st.id, code)
			c.forgetLocked(st)
		case !st.complete: // the rest of the request will not be read
			c.out.reset(st.id, http2.ErrCodeNo)
			c.forgetLocked(st)
		}
		st.answered = true
	}
	c.dropLocked(st)
}

// dropLocked discards the part of a body that has arrived and will not be read.
func (c *conn) dropLocked(st *stream) {
	if n := st.body.drop(); c.err == nil {
		c.skipLocked(n)
	}
}

// endLocked aborts a stream: goroutines that wait for it get err.
func (c *conn) endLocked(st *stream, err error) {
	if st.err != nil {
		return
	}
	st.err = err
	if st.cancel != nil {
		st.cancel()
	}
	st.changedLocked()
	c.forgetLocked(st)
}

// forgetLocked removes a stream that both sides have finished with.
func (c *conn) forgetLocked(st *stream) {
	delete(c.streams, st.id)
	if len(c.streams) == 0 {
		c.updateIdleLocked()
	}
}

// handlerReturnedLocked records that a handler has returned.
func (c *conn) handlerReturnedLocked(st *stream) {
	c.memory -= st.memory
	if c.running--; c.running == 0 {
		c.updateIdleLocked()
	}
}

// SetReadDeadline sets by when the body must have arrived.
func (r *response) SetReadDeadline(t time.Time) error { return r.st.within(&r.st.readBy, t) }

// SetWriteDeadline sets by when the client must have read what is being written.
func (r *response) SetWriteDeadline(t time.Time) error { return r.st.within(&r.st.writeBy, t) }

// EnableFullDuplex does nothing: HTTP/2 is always full duplex.
func (r *response) EnableFullDuplex() error { return nil }

func (st *stream) within(d *deadline, t time.Time) error {
	st.conn.mu.Lock()
	defer st.conn.mu.Unlock()
	if st.answer.rest != nil {
		return errOver
	}
	d.stop()
	*d = deadline{at: t}
	st.changed.Broadcast() // a waiting goroutine checks the new deadline
	return nil
}

// waitLocked waits until something of the stream has changed, or a deadline has passed.
func (st *stream) waitLocked(d *deadline) {
	st.remindLocked(d)
	st.changed.Wait()
}

// remindLocked starts the timer of a deadline.
func (st *stream) remindLocked(d *deadline) {
	if d.timer == nil && !d.at.IsZero() {
		d.timer = time.AfterFunc(time.Until(d.at), func() {
			st.conn.mu.Lock()
			defer st.conn.mu.Unlock()
			st.changedLocked()
			st.conn.handOverLocked()
		})
	}
}
