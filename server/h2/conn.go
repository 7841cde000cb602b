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
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// conn is one connection. The goroutine that called serve reads it. It is written by handlers and by tasks of the crew.
type conn struct {
	server  *Server
	net     *tls.Conn
	handler http.Handler
	base    context.Context
	secure  tls.ConnectionState
	remote  string

	// Only the goroutine that reads uses these.
	in               *bufio.Reader
	framer           *http2.Framer // for reading
	begun            []*stream     // their heads have come, and their handlers have not been started
	names            names
	settingsReceived bool // the client's settings have come

	mu          sync.Mutex // guards all that follows
	err         error      // why the connection is of no more use
	streams     map[uint32]*stream
	last        uint32 // the highest stream that the client has opened
	served      uint32 // the highest that was served, when no new ones are
	running     int    // handlers, also of streams that have ended
	memory      int    // what the heads of their requests take
	draining    bool   // no new streams are taken
	misused     bool   // the client has not kept to HTTP/2
	goodbyeSent bool   // all has been sent, and the client has been told so
	idle        *time.Timer

	known    atomic.Bool  // a request has been authenticated; set under mu
	gathered atomic.Int64 // bytes of answers that their handlers have written and that have not been queued
	nuisance nuisance

	out     outgoing
	receive window
}

// These bound what may come, on a stream and on all streams of a connection, before it has been read. The second is so much
// larger that a few bodies that nobody reads do not keep the others from coming.
const streamWindow, connWindow = 256 << 10, 4 << 20

func newConn(s *Server, secure *tls.Conn, handler http.Handler) *conn {
	c := &conn{
		server: s, net: secure, handler: handler, base: context.Background(), secure: secure.ConnectionState(), remote: secure.RemoteAddr().String(),
		streams: map[uint32]*stream{}, receive: newWindow(connWindow),
	}
	c.nuisance.since = time.Now()
	if h, ok := handler.(interface{ BaseContext() context.Context }); ok {
		c.base = h.BaseContext()
	}
	c.base = context.WithValue(c.base, connKey{}, c)
	c.in = bufio.NewReaderSize((*connReader)(c), 4<<10)
	c.framer = http2.NewFramer(nil, c.in)
	c.framer.SetReuseFrames()
	c.framer.SetMaxReadFrameSize(largestFrame)
	c.framer.MaxHeaderListSize = s.o.MaxHeader
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.out.init()
	c.out.settings(
		http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: uint32(c.maxStreams())},
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
	err := c.readPreface()
	for err == nil {
		err = c.readFrame()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.terminateLocked(err)
	if c.idle != nil {
		c.idle.Stop()
	}
}

// readPreface reads the client's connection preface, and lets the server's settings be written, which newConn has queued.
func (c *conn) readPreface() error {
	c.mu.Lock()
	c.idle = time.AfterFunc(c.server.o.IdleTimeout, c.idleTimedOut)
	c.updateIdleLocked()
	var err error
	if !c.draining { // or the end has been set already
		err = c.net.SetReadDeadline(time.Now().Add(c.server.o.PrefaceTimeout))
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

// connReader is what the framer reads from.
type connReader conn

// Read waits for bytes of the client. Before that it starts the handlers, and lets the frames be written, that were held back while more could be read.
func (s *connReader) Read(b []byte) (int, error) {
	c := (*conn)(s)
	c.mu.Lock()
	c.startLocked()
	c.handOverLocked()
	if c.goodbyeSent { // as long as the client sends it may be reading, too, and must not be cut off
		c.net.SetReadDeadline(time.Now().Add(goodbyeTime))
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

// refuseLocked resets a stream on which the client has violated the protocol.
func (c *conn) refuseLocked(e http2.StreamError) error {
	if e.StreamID > c.last {
		c.last = e.StreamID
	}
	if !c.nuisance.charge(1) {
		return errFlood
	}
	c.out.reset(e.StreamID, e.Code)
	if st := c.streams[e.StreamID]; st != nil {
		c.endLocked(st, e)
	}
	return c.out.tooMuch()
}
