package h2

import (
	"runtime"
	"time"
)

// flushLocked writes the queued frames, unless another goroutine is writing. It unlocks mu while it writes. Frames that are queued meanwhile are
// left to another goroutine: otherwise a handler might write for others without end.
func (c *conn) flushLocked() {
	if !c.out.writing {
		c.writeLocked()
		c.handOverLocked()
	}
}

// handOverLocked lets another goroutine write the queued frames, and end the connection if it is drained. The goroutine that reads the connection and
// those that end connections call it, too: a client that does not read must not block them.
func (c *conn) handOverLocked() {
	if !c.out.writing && c.err == nil && (len(c.out.frames) > 0 || c.drainedLocked()) {
		c.server.crew.Start((*flushTask)(c))
	}
}

// writeLocked writes the queued frames. It is true if there were any: then more may have been queued since. First it lets the goroutines run that are
// ready to queue more: a write for each of them would cost more than everything else.
func (c *conn) writeLocked() bool {
	o := &c.out
	if len(o.frames) == 0 || c.err != nil {
		return false
	}
	o.writing = true
	c.mu.Unlock()
	runtime.Gosched()
	c.mu.Lock()
	b, box := o.takeFramesLocked()
	c.mu.Unlock()
	err := c.write(b)
	if box != nil && cap(b) <= 2*maxQueued {
		*box = b[:0]
		framePool.Put(box)
	}
	c.mu.Lock()
	o.writing = false
	if err != nil {
		c.net.NetConn().Close() // and the reader sees it
		c.failLocked(errClientGone)
		return true
	}
	o.wakeLocked()
	return true
}

// write writes in pieces, so that a client that is slow is not taken for one that takes nothing.
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

// extendWriteDeadline gives the client at least as long as Options.WriteTimeout to take the next piece, and at most twice as long: to say so
// for each piece would cost more.
func (c *conn) extendWriteDeadline() error {
	now := time.Now()
	if stall := c.server.o.WriteTimeout; c.out.takes.Sub(now) < stall {
		c.out.takes = now.Add(2 * stall)
		return c.net.SetWriteDeadline(c.out.takes)
	}
	return nil
}

// flushTask is the task to write what others have left on a connection.
type flushTask conn

// Do implements crew.Task.
func (r *flushTask) Do() {
	c := (*conn)(r)
	c.mu.Lock()
	for !c.out.writing && c.writeLocked() {
	}
	ended := !c.out.writing && c.drainedLocked() // a goroutine that is writing hands over again
	c.goodbyeSent = c.goodbyeSent || ended
	used := c.last > 0 || c.misused
	c.mu.Unlock()
	if !ended {
		return
	}
	// The reader sees the end. A client that has not asked for anything yet is left to close the connection itself: Go's would
	// give up its first request if it found the connection closed, but sends it elsewhere when it is only told to go away.
	if used {
		c.net.CloseWrite()
	}
	c.net.SetReadDeadline(time.Now().Add(goodbyeTime))
}
