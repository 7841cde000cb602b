package h2

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// conn is one connection. Its reader is the goroutine that called serve; whoever has something to send writes it.
type conn struct {
	server  *Server
	net     *tls.Conn
	handler http.Handler
	base    context.Context
	secure  tls.ConnectionState
	remote  string

	// These are the reader's own.
	in      *bufio.Reader
	framer  *http2.Framer // for reading
	begun   []*stream     // their heads have come, and their handlers have not been started
	names   names
	greeted bool // the client's settings have come

	mu      sync.Mutex // guards all that follows
	err     error      // why the connection is of no more use
	streams map[uint32]*stream
	last    uint32 // the highest stream that the client has opened
	served  uint32 // the highest that was served, when no new ones are
	running int    // handlers, also of streams that have ended
	heads   int    // how long the heads of their requests are
	leaving bool   // no new streams are taken
	misused bool   // the client has not kept to HTTP/2
	parted  bool   // all has been sent, and the client has been told so
	idle    *time.Timer

	out     outgoing
	receive window
}

// These are how much may be received, of a stream and of all streams of a connection, before it has been read. A few bodies
// that nobody reads do not keep the others from coming.
const streamWindow, connWindow = 256 << 10, 4 << 20

func newConn(s *Server, secure *tls.Conn, handler http.Handler) *conn {
	c := &conn{
		server: s, net: secure, handler: handler, base: context.Background(), secure: secure.ConnectionState(), remote: secure.RemoteAddr().String(),
		streams: map[uint32]*stream{}, receive: newWindow(connWindow),
	}
	if h, ok := handler.(interface{ BaseContext() context.Context }); ok {
		c.base = h.BaseContext()
	}
	c.in = bufio.NewReaderSize((*source)(c), 4<<10)
	c.framer = http2.NewFramer(nil, c.in)
	c.framer.SetReuseFrames()
	c.framer.SetMaxReadFrameSize(largestFrame)
	c.framer.MaxHeaderListSize = s.o.MaxHeader
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.out.init()
	c.out.settings(
		http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: s.o.MaxStreams},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: s.o.MaxHeader},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: streamWindow},
	)
	c.out.windowUpdate(0, connWindow-firstWindow)
	return c
}

var (
	errClientGone  = errors.New("h2: the client has gone")
	errStopped     = errors.New("h2: the client has ended the request")
	errBadGreeting = errors.New("h2: the client did not begin as HTTP/2 does")
)

// serve reads until the connection ends.
func (c *conn) serve() {
	err := c.greet()
	for err == nil {
		err = c.readFrame()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dismissLocked(err)
	if c.idle != nil {
		c.idle.Stop()
	}
}

// greet exchanges the first words. The server's have been there since before anybody could make the connection say others.
func (c *conn) greet() error {
	c.mu.Lock()
	c.idle = time.AfterFunc(c.server.o.Idle, c.idled)
	c.restLocked()
	var err error
	if !c.leaving { // or the end has been set already
		err = c.net.SetReadDeadline(time.Now().Add(c.server.o.Greeting))
	}
	c.handOverLocked()
	c.mu.Unlock()
	if err != nil {
		return err
	}
	var preface [len(http2.ClientPreface)]byte
	if _, err := io.ReadFull(c.in, preface[:]); err != nil {
		return err
	}
	if !bytes.Equal(preface[:], []byte(http2.ClientPreface)) {
		return errBadGreeting
	}
	return nil
}

// source is what the reader reads from.
type source conn

// Read lets all go its way, before it sleeps, that was held back for what might follow.
func (s *source) Read(b []byte) (int, error) {
	c := (*conn)(s)
	c.mu.Lock()
	c.startLocked()
	c.handOverLocked()
	if c.parted { // as long as the client sends it may be reading, too, and must not be cut off
		c.net.SetReadDeadline(time.Now().Add(parts))
	}
	c.mu.Unlock()
	return c.net.Read(b)
}

// readFrame reads and handles one frame. An error ends the connection.
func (c *conn) readFrame() error {
	f, err := c.framer.ReadFrame()
	if err == nil {
		err = c.handle(f)
	}
	var ofStream http2.StreamError
	if errors.As(err, &ofStream) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.refuseLocked(ofStream)
	}
	return err
}

// refuseLocked ends a stream that the client misused.
func (c *conn) refuseLocked(e http2.StreamError) error {
	if e.StreamID > c.last {
		c.last = e.StreamID
	}
	c.out.reset(e.StreamID, e.Code)
	if st := c.streams[e.StreamID]; st != nil {
		c.endLocked(st, e)
	}
	return c.out.tooMuch()
}

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
	if c.net.SetReadDeadline(time.Now().Add(lingers)) == nil {
		_, _ = io.Copy(io.Discard, c.net)
	}
	c.mu.Lock()
	c.failLocked(errClientGone)
}

// lingers is how long a client may take to hear why its connection ends, parts how long it may be silent before it leaves in
// order.
const lingers, parts = time.Second, 2 * time.Second

// goAwayLocked tells the client that no more streams are taken. It may believe that those have not been served that came
// after the last one that it hears of, so it never hears of a later one.
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

// decline tells a client that has come too late that nothing of what it asks is going to be done, so that it may ask elsewhere.
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

// idled ends a connection that nobody has used for long: in order, or, if its client does not take part in that, without.
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
