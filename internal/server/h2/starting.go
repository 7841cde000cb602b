package h2

import (
	"net/http"
	"runtime"
	"time"
)

// A connection may bring hundreds of requests at once. If all of them had goroutines that want a processor, the
// requests of others would wait behind them: Go lets goroutines run in the order in which they became ready. So only a
// few requests of a connection run at a time that have not come to where they wait for their turn, which their handler
// says by Queued.

// mostStarting is how many requests that is.
var mostStarting = max(2, runtime.GOMAXPROCS(0))

// startTakes is after how long one of them no longer keeps others from being started: it is waiting for something.
var startTakes = 2 * time.Millisecond

// Queued says that a request has come to where it waits for its turn. For responses of other servers it does nothing.
func Queued(w http.ResponseWriter) {
	if st := streamOf(w); st != nil {
		st.queuedUp()
	}
}

// streamOf is the stream of a response; nil if it is one of another server.
func streamOf(w http.ResponseWriter) *stream {
	for {
		switch known := w.(type) {
		case *response:
			return known.st
		case interface{ Unwrap() http.ResponseWriter }:
			w = known.Unwrap()
		default:
			return nil
		}
	}
}

// queuedUp lets others of the connection start in the place of a stream. Only its handler calls it.
func (st *stream) queuedUp() {
	if !st.starting {
		return
	}
	st.starting = false
	c := st.conn
	c.starting.Add(-1)
	if c.backlog.Load() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.startLocked()
		c.handOverLocked()
	}
}

// startLocked runs the handlers of the requests whose heads have arrived. They were held back until everything that
// came with the heads was read: most then have their whole body, and requests that were cancelled at once are not run.
func (c *conn) startLocked() {
	if len(c.unstarted) == 0 {
		return
	}
	c.backlog.Store(true) // before the others are counted: whoever is not counted any more sees it
	most := c.stuck + mostStarting
	n := 0
	for n < len(c.unstarted) {
		st := c.unstarted[n]
		if st.err != nil {
			c.dropLocked(st)
			c.handlerReturnedLocked(st)
		} else {
			if int(c.starting.Load()) >= most {
				break
			}
			c.starting.Add(1)
			st.starting = true
			c.server.workers.Start(st)
		}
		c.unstarted[n] = nil
		n++
	}
	if c.unstarted = c.unstarted[n:]; len(c.unstarted) > 0 {
		c.remindLocked()
		return
	}
	c.unstarted, c.stuck = nil, 0
	c.backlog.Store(false)
}

// remindLocked has others started when those that have been started take too long.
func (c *conn) remindLocked() {
	if c.err != nil || c.reminded {
		return
	}
	c.reminded = true
	if c.reminder != nil {
		c.reminder.Reset(startTakes)
		return
	}
	c.reminder = time.AfterFunc(startTakes, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.reminded = false
		c.stuck = int(c.starting.Load())
		c.startLocked()
		c.handOverLocked()
	})
}
