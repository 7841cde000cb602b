package h2

import (
	"runtime"
	"time"
)

// flushLocked sends what waits, unless somebody is writing already. It unlocks mu while it writes. What others have queued
// meanwhile is handed over, or the caller might never get away.
func (c *conn) flushLocked() {
	if !c.out.writing {
		c.writeLocked()
		c.handOverLocked()
	}
}

// handOverLocked lets another goroutine send what waits, and end the connection if that was all. The reader and those who
// end connections call it, too, because a client that does not read must not hold them up.
func (c *conn) handOverLocked() {
	if !c.out.writing && c.err == nil && (len(c.out.frames) > 0 || c.endsLocked()) {
		c.server.crew.Start((*rest)(c))
	}
}

// writeLocked writes all that waits, and tells whether there was anything: then the caller hands over what has come since.
// First it lets goroutines run that are ready to add more: with a write for each of them, writing would cost more than all
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
	b, box := o.unpackLocked()
	c.mu.Unlock()
	err := c.write(b)
	if box != nil && cap(b) <= 2*plenty {
		*box = b[:0]
		boxes.Put(box)
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
		if err := c.patience(); err != nil {
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

// patience gives the client at least as long as Options.Stall to take the next piece, and at most twice as long: to say so
// for each piece would cost more.
func (c *conn) patience() error {
	now := time.Now()
	if stall := c.server.o.Stall; c.out.takes.Sub(now) < stall {
		c.out.takes = now.Add(2 * stall)
		return c.net.SetWriteDeadline(c.out.takes)
	}
	return nil
}

// rest is the task to write what others have left on a connection.
type rest conn

// Do implements crew.Task.
func (r *rest) Do() {
	c := (*conn)(r)
	c.mu.Lock()
	for !c.out.writing && c.writeLocked() {
	}
	ended := !c.out.writing && c.endsLocked() // whoever is writing hands over again
	c.parted = c.parted || ended
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
	c.net.SetReadDeadline(time.Now().Add(parts))
}
