package h2

import (
	"errors"
	"io"
	"time"

	"golang.org/x/net/http2"
)

// terminateLocked ends all streams. If the connection has an error, a GOAWAY frame carries it.
func (c *conn) terminateLocked(err error) {
	code := http2.ErrCodeNo
	var connErr http2.ConnectionError
	switch {
	case errors.As(err, &connErr):
		code = http2.ErrCode(connErr)
	case errors.Is(err, http2.ErrFrameTooLarge):
		code = http2.ErrCodeFrameSize
	case errors.Is(err, errFlood):
		code = http2.ErrCodeEnhanceYourCalm
	case errors.Is(err, errBadPreface):
		code = http2.ErrCodeProtocol
	}
	if code == http2.ErrCodeNo || c.err != nil {
		c.failLocked(errClientGone)
		return
	}
	c.misused = true
	c.goAwayLocked(code)
	for _, st := range c.streams {
		c.endLocked(st, errClientGone)
	}
	c.startLocked()
	c.handOverLocked()
	// If the connection were closed at once, a client that is still sending would not receive the reason.
	c.mu.Unlock()
	c.in, c.framer, c.names = nil, nil, nil
	c.linger()
	c.mu.Lock()
	c.failLocked(errClientGone)
}

// linger waits until the client has closed the connection, for lingerTime at most. A client that has sent lingerBytes
// meanwhile is not read any more. Its connection is not closed earlier either: it would connect again, and the
// handshake costs the server more than the waiting connection.
func (c *conn) linger() {
	end := time.Now().Add(lingerTime)
	if c.net.SetReadDeadline(end) != nil {
		return
	}
	if _, err := io.CopyN(io.Discard, c.net, lingerBytes); err != nil {
		return
	}
	rest := time.NewTimer(time.Until(end))
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-c.server.leaving:
	}
}

// lingerBytes is how much the client may send meanwhile.
const lingerBytes = 256 << 10

// lingerTime is how long a client may take to read why its connection ends. goodbyeTime is how long it may then be
// silent before the connection is closed in order.
const lingerTime, goodbyeTime = time.Second, 2 * time.Second

// goAwayLocked tells the client which stream is the last that is served, and that no later ones will be. The client may
// repeat later ones elsewhere, so that number never grows.
func (c *conn) goAwayLocked(code http2.ErrCode) {
	if !c.draining {
		c.draining, c.served = true, c.last
	}
	c.out.goAway(c.served, code)
}

// failLocked ends the connection: everything that waits for it fails with err.
func (c *conn) failLocked(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	for _, st := range c.streams {
		c.endLocked(st, err)
	}
	c.out.takeFramesLocked()
	c.out.waiting = nil
}

// drain accepts no more streams, and ends the connection when none is left.
func (c *conn) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drainLocked()
}

func (c *conn) drainLocked() {
	if c.draining || c.err != nil {
		return
	}
	c.goAwayLocked(http2.ErrCodeNo)
	c.updateIdleLocked()
	c.handOverLocked()
}

// reject answers a client that connects during the server's shutdown. The client learns that none of its requests was
// served, so that it can send them elsewhere.
func (c *conn) reject() {
	c.out.goAway(0, http2.ErrCodeNo)
	if c.net.SetDeadline(time.Now().Add(goodbyeTime)) != nil {
		return
	}
	if _, err := c.net.Write(c.out.frames); err == nil {
		_, _ = io.Copy(io.Discard, c.net)
	}
}

// drainedLocked reports whether the connection accepts no more streams, has none left, and has not been closed.
func (c *conn) drainedLocked() bool {
	return c.draining && !c.goAwaySent && len(c.streams) == 0 && c.running == 0
}

// idleTimedOut ends a connection that has been idle for too long. The client first gets a GOAWAY frame; if it stays,
// the connection is closed.
func (c *conn) idleTimedOut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(c.streams) > 0 || c.running > 0:
	case c.draining:
		c.net.NetConn().Close()
	default:
		c.drainLocked()
	}
}

// updateIdleLocked starts or stops the timer of idle connections.
func (c *conn) updateIdleLocked() {
	if c.idle == nil || c.err != nil {
		return
	}
	switch {
	case len(c.streams) > 0 || c.running > 0:
		c.idle.Stop()
	case c.draining:
		c.idle.Reset(3 * goodbyeTime)
	default:
		c.idle.Reset(c.server.o.IdleTimeout)
	}
}
