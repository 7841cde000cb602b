package attacks

import (
	"bytes"
	"crypto/tls"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Opening says how a connection begins.
type Opening struct {
	Settings []http2.Setting
	// Deaf connections read nothing that the server says.
	Deaf bool
}

// Conn is a connection that can say what it likes. Frames are gathered and written together.
type Conn struct {
	*http2.Framer
	secure  *tls.Conn
	out     *bytes.Buffer
	block   bytes.Buffer
	encoder *hpack.Encoder
	ended   atomic.Bool   // the server has ended the connection, or said that it will
	heard   chan struct{} // closed when nothing more is read
	ponged  atomic.Int64  // answered pings
}

// open connects and greets. It returns nil, and counts, if the server does not have it.
func (a *Attacker) open(o Opening) *Conn {
	secure, err := a.tls()
	if err != nil {
		a.Refused.Add(1)
		return nil
	}
	out := new(bytes.Buffer)
	c := &Conn{Framer: http2.NewFramer(out, secure), secure: secure, out: out, heard: make(chan struct{})}
	c.AllowIllegalWrites = true
	c.encoder = hpack.NewEncoder(&c.block)
	a.keep(c)
	out.WriteString(http2.ClientPreface)
	_ = c.WriteSettings(o.Settings...)
	c.flush()
	if o.Deaf {
		close(c.heard)
	} else {
		go c.listen(a)
	}
	if a.authenticated {
		c.head(1, true, pathAuthenticate)
		c.settle()
	}
	return c
}

// listen reads until the connection ends.
func (c *Conn) listen(a *Attacker) {
	defer close(c.heard)
	for {
		f, err := c.ReadFrame()
		if err != nil {
			if !c.ended.Swap(true) {
				a.Refused.Add(1)
			}
			return
		}
		switch f := f.(type) {
		case *http2.GoAwayFrame:
			if !c.ended.Swap(true) {
				a.Refused.Add(1)
			}
		case *http2.PingFrame:
			if f.IsAck() {
				c.ponged.Add(1)
			}
		}
	}
}

// over tells whether the server has ended the connection.
func (c *Conn) over() bool { return c.ended.Load() }

// gathers is how many bytes are written together.
const gathers = 32 << 10

// sent flushes when enough has been gathered.
func (c *Conn) sent() {
	if c.out.Len() >= gathers {
		c.flush()
	}
}

func (c *Conn) flush() {
	_ = c.secure.SetWriteDeadline(time.Now().Add(frameTimeout))
	if _, err := c.secure.Write(c.out.Bytes()); err != nil {
		c.ended.Store(true)
	}
	c.out.Reset()
}

// settleTime is how long the server may take to come to the end of what was sent.
const settleTime = 10 * time.Second

// settle waits until the server has read everything, or has ended the connection.
func (c *Conn) settle() {
	before := c.ponged.Load()
	_ = c.WritePing(false, [8]byte{})
	c.flush()
	for end := time.Now().Add(settleTime); time.Now().Before(end) && !c.over() && c.ponged.Load() == before; {
		select {
		case <-c.heard:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

func (c *Conn) close() {
	c.secure.NetConn().Close()
	<-c.heard
}

// head writes the head of a request, with pairs of names and values besides the usual ones.
func (c *Conn) head(id uint32, end bool, path string, pairs ...string) {
	_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.encode(path, pairs...), EndStream: end, EndHeaders: true})
	c.sent()
}

// encode is the block of a request's head.
func (c *Conn) encode(path string, pairs ...string) []byte {
	method := "GET"
	if path == pathRead {
		method = "POST"
	}
	c.block.Reset()
	all := append([]string{":method", method, ":scheme", "https", ":path", path, ":authority", "example.com"}, pairs...)
	for i := 0; i < len(all); i += 2 {
		_ = c.encoder.WriteField(hpack.HeaderField{Name: all[i], Value: all[i+1]})
	}
	return c.block.Bytes()
}

// trailers writes what follows a body.
func (c *Conn) trailers(id uint32, pairs ...string) {
	c.block.Reset()
	for i := 0; i < len(pairs); i += 2 {
		_ = c.encoder.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.block.Bytes(), EndStream: true, EndHeaders: true})
	c.sent()
}

// raw writes a frame as it is.
func (c *Conn) raw(kind http2.FrameType, flags http2.Flags, id uint32, payload []byte) {
	_ = c.WriteRawFrame(kind, flags, id, payload)
	c.sent()
}

// stream is the number of the i-th request of a connection. The first of all may be the one that is authenticated.
func stream(i int) uint32 { return uint32(2*i + 3) }

// sized is the path of an answer of n bytes.
func sized(n int) string { return pathSized + strconv.Itoa(n) }
