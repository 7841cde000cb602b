package h2

import (
	"runtime"
	"time"
)

// flushLocked writes the queued frames, unless another goroutine is writing. It unlocks mu while it writes. Frames that
// are queued meanwhile are left to another goroutine: otherwise a handler might write for others without end.
func (c *conn) flushLocked() {
	if !c.out.writing {
		c.writeLocked()
		c.handOverLocked()
	}
}

// handOverLocked makes another goroutine write the queued frames, and end the connection if it is drained. The
// goroutine that reads the connection and those that end connections call it, too: a client that does not read must not
// block them.
func (c *conn) handOverLocked() {
	if !c.out.writing && c.err == nil && (len(c.out.frames) > 0 || c.drainedLocked()) {
		c.server.workers.Start((*flushTask)(c))
	}
}

// writeLocked writes the queued frames. It returns true if there were any: then more may have been queued since. First
// it yields to goroutines that are ready to queue more: one write for each of them would cost more than everything
// else.
func (c *conn) writeLocked() bool {
	o := &c.out
	if len(o.frames) == 0 || c.err != nil {
		return false
	}
	o.writing = true
	c.mu.Unlock()
	runtime.Gosched()
	c.mu.Lock()
	b, pooled := o.takeFramesLocked()
	c.mu.Unlock()
	err := c.write(b)
	if pooled != nil && cap(b) <= 2*maxQueued {
		*pooled = b[:0]
		framePool.Put(pooled)
	}
	c.mu.Lock()
	o.writing = false
	if err != nil {
		c.net.NetConn().Close() // the goroutine that reads then gets an error
		c.failLocked(errClientGone)
		return true
	}
	c.wakeLocked()
	return true
}

// write writes in pieces, so that a slow client is not mistaken for one that reads nothing.
func (c *conn) write(b []byte) error {
	for len(b) > 0 {
		if err := c.extendWriteDeadline(); err != nil {
			return err
		}
		n, err := c.net.Write(b[:min(len(b), 4*largestFrame)])
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// extendWriteDeadline gives the client between one and two Options.WriteTimeout to read the next piece. Setting the
// deadline for each piece would cost more.
func (c *conn) extendWriteDeadline() error {
	now := time.Now()
	if stall := c.server.o.WriteTimeout; c.out.writeDeadline.Sub(now) < stall {
		c.out.writeDeadline = now.Add(2 * stall)
		return c.net.SetWriteDeadline(c.out.writeDeadline)
	}
	return nil
}

// flushTask is the task of writing what other goroutines have queued on a connection.
type flushTask conn

// Do implements workers.Task.
func (f *flushTask) Do() {
	c := (*conn)(f)
	c.mu.Lock()
	for !c.out.writing && c.writeLocked() {
	}
	ended := !c.out.writing && c.drainedLocked() // a goroutine that is writing hands over again
	c.goAwaySent = c.goAwaySent || ended
	used := c.last > 0 || c.misused
	c.mu.Unlock()
	if !ended {
		return
	}
	// The goroutine that reads sees the end. If the client has not sent a request yet, it is left to close the
	// connection itself: Go's client fails its first request if the connection is closed, but repeats it elsewhere if
	// it only gets a GOAWAY frame.
	if used {
		c.net.CloseWrite()
	}
	c.net.SetReadDeadline(time.Now().Add(goodbyeTime))
}
