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
	// Deaf connections never read.
	Deaf bool
}

// Conn is a connection that can send any frames. Frames are buffered and written together.
type Conn struct {
	*http2.Framer
	secure  *tls.Conn
	out     *bytes.Buffer
	block   bytes.Buffer
	encoder *hpack.Encoder
	ended   atomic.Bool   // the server has ended the connection, or announced that it will
	heard   chan struct{} // closed when nothing more is read
	ponged  atomic.Int64  // number of answered pings
}

// open connects and sends the connection preface. If the server refuses the connection, open counts that and returns
// nil.
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

// over reports whether the server has ended the connection.
func (c *Conn) over() bool { return c.ended.Load() }

// bufferSize is how many bytes are written together.
const bufferSize = 32 << 10

// sent flushes when enough has been buffered.
func (c *Conn) sent() {
	if c.out.Len() >= bufferSize {
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

// settleTime is how long the server may take to process everything that was sent.
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

// head writes the head of a request; pairs are the names and values of additional fields.
func (c *Conn) head(id uint32, end bool, path string, pairs ...string) {
	_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.encode(path, pairs...), EndStream: end, EndHeaders: true})
	c.sent()
}

// encode returns the header block of a request.
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

// trailers writes trailers.
func (c *Conn) trailers(id uint32, pairs ...string) {
	c.block.Reset()
	for i := 0; i < len(pairs); i += 2 {
		_ = c.encoder.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.block.Bytes(), EndStream: true, EndHeaders: true})
	c.sent()
}

// raw writes a frame without any check.
func (c *Conn) raw(kind http2.FrameType, flags http2.Flags, id uint32, payload []byte) {
	_ = c.WriteRawFrame(kind, flags, id, payload)
	c.sent()
}

// stream returns the number of the i-th stream of a connection. The first stream may be the authenticated request.
func stream(i int) uint32 { return uint32(2*i + 3) }

// sized returns the path of an answer of n bytes.
func sized(n int) string { return pathSized + strconv.Itoa(n) }
