package h2

import (
	"errors"
	"io"
	"time"

	"golang.org/x/net/http2"
)

// dismissLocked says goodbye, if there is somebody to hear it, and ends all streams.
func (c *conn) dismissLocked(err error) {
	code := http2.ErrCodeNo
	var misuse http2.ConnectionError
	switch {
	case errors.As(err, &misuse):
		code = http2.ErrCode(misuse)
	case errors.Is(err, http2.ErrFrameTooLarge):
		code = http2.ErrCodeFrameSize
	case errors.Is(err, errFlood):
		code = http2.ErrCodeEnhanceYourCalm
	case errors.Is(err, errBadGreeting):
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
	// A client that is still sending would not hear the reason if the connection were closed at once.
	c.mu.Unlock()
	c.in, c.framer, c.names = nil, nil, nil
	if c.net.SetReadDeadline(time.Now().Add(lingers)) == nil {
		_, _ = io.CopyN(io.Discard, c.net, lingerBytes)
	}
	c.mu.Lock()
	c.failLocked(errClientGone)
}

// lingerBytes is how much a client may go on sending meanwhile.
const lingerBytes = 256 << 10

// lingers is how long a client may take to hear why its connection ends, parts how long it may be silent before it leaves in
// order.
const lingers, parts = time.Second, 2 * time.Second

// goAwayLocked tells the client that no more streams are taken, and which was the last one that was. The client may send
// later ones elsewhere, so that number never grows.
func (c *conn) goAwayLocked(code http2.ErrCode) {
	if !c.leaving {
		c.leaving, c.served = true, c.last
	}
	c.out.goAway(c.served, code)
}

// failLocked makes the connection useless: what waits for it hears that.
func (c *conn) failLocked(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	for _, st := range c.streams {
		c.endLocked(st, err)
	}
	c.out.unpackLocked()
	c.out.waiting = nil
}

// leave takes no more streams, and ends the connection when there are none.
func (c *conn) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaveLocked()
}

func (c *conn) leaveLocked() {
	if c.leaving || c.err != nil {
		return
	}
	c.goAwayLocked(http2.ErrCodeNo)
	c.restLocked()
	c.handOverLocked()
}

// decline tells a client that has come too late that nothing it asks for will be done, so that it may ask elsewhere.
func (c *conn) decline() {
	c.out.goAway(0, http2.ErrCodeNo)
	if c.net.SetDeadline(time.Now().Add(parts)) != nil {
		return
	}
	if _, err := c.net.Write(c.out.frames); err == nil {
		_, _ = io.Copy(io.Discard, c.net)
	}
}

// endsLocked tells that a connection was left, has no more streams, and has not heard so.
func (c *conn) endsLocked() bool {
	return c.leaving && !c.parted && len(c.streams) == 0 && c.running == 0
}

// idled ends a connection that nobody has used for long: by a goodbye first, and at once if the client has had that and stays.
func (c *conn) idled() {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(c.streams) > 0 || c.running > 0:
	case c.leaving:
		c.net.NetConn().Close()
	default:
		c.leaveLocked()
	}
}

// restLocked begins or ends the time in which a connection is idle.
func (c *conn) restLocked() {
	if c.idle == nil || c.err != nil {
		return
	}
	switch {
	case len(c.streams) > 0 || c.running > 0:
		c.idle.Stop()
	case c.leaving:
		c.idle.Reset(3 * parts)
	default:
		c.idle.Reset(c.server.o.Idle)
	}
}
