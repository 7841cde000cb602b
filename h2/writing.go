package h2

import (
	"runtime"
	"time"
)

// flushLocked sends what waits, unless somebody is writing already. It gives mu away while it writes. What has come in the
// meantime is somebody else's work, or the caller could be kept for ever.
func (c *conn) flushLocked() {
	if !c.out.writing {
		c.writeLocked()
		c.handOverLocked()
	}
}

// handOverLocked lets somebody else send what waits, and part if that was all. It is for those, too, whom a client that
// does not read must not keep: the reader, and who ends connections.
func (c *conn) handOverLocked() {
	if !c.out.writing && c.err == nil && (len(c.out.frames) > 0 || c.endsLocked()) {
		c.server.crew.Start((*rest)(c))
	}
}

// writeLocked writes all that waits, and tells whether there was something: then it is to be followed by handing over what
// has come since. Before it does, those run that are ready to add more: a write for each of many would cost each of them
// more than all else.
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

// rest is a connection of which somebody writes what others have left.
type rest conn

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
	// The reader sees the end. Go's client gives up a request for which it finds its new connection closed, though it sends it
	// again when it only hears that it is to go away: so who has not asked yet may leave by itself.
	if used {
		c.net.CloseWrite()
	}
	c.net.SetReadDeadline(time.Now().Add(parts))
}
