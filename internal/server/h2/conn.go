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

// conn is one connection. The goroutine that called serve reads it. Handlers and tasks of the pool of workers write to
// it.
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
	names            names
	settingsReceived bool // the client's settings have arrived

	mu         sync.Mutex // guards everything below
	err        error      // why the connection cannot be used any more
	streams    map[uint32]*stream
	last       uint32 // the highest stream that the client has opened
	served     uint32 // the highest stream that is served, once new ones are refused
	running    int    // number of handlers, including those of streams that have ended
	memory     int    // memory of the heads of their requests
	draining   bool   // no new streams are accepted
	misused    bool   // the client has violated HTTP/2
	goAwaySent bool   // everything has been sent, and so has a GOAWAY frame
	idle       *time.Timer

	unstarted []*stream   // their heads have arrived, and their handlers have not been started
	stuck     int         // how many of those that are starting take so long that others start besides
	reminder  *time.Timer // for what has not been started; nil until it is needed
	reminded  bool        // it will come
	starting  atomic.Int32
	backlog   atomic.Bool // there is something unstarted

	authenticated atomic.Bool  // a request has been authenticated; set under mu
	buffered      atomic.Int64 // bytes of answers that handlers have written and that have not been queued
	nuisance      nuisance

	out     outgoing
	receive window
}

// These bound how much may arrive before it is read, on a stream and on all streams of a connection. The second is much
// larger, so that a few bodies that are not read do not block the others.
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
	errClientGone = errors.New("h2: the client has disconnected")
	errStopped    = errors.New("h2: the client has cancelled the request")
	errBadPreface = errors.New("h2: the client did not send the connection preface")
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
	if c.reminder != nil {
		c.reminder.Stop()
	}
}

// readPreface reads the client's connection preface, and lets the server's settings be written, which newConn has
// queued.
func (c *conn) readPreface() error {
	c.mu.Lock()
	c.idle = time.AfterFunc(c.server.o.IdleTimeout, c.idleTimedOut)
	c.updateIdleLocked()
	var err error
	if !c.draining { // otherwise the deadline for the end has been set
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
		return errBadPreface
	}
	return nil
}

// connReader is what the framer reads from.
type connReader conn

// Read waits for bytes of the client. Before that it starts the handlers and writes the frames that were held back
// while more could be read.
func (cr *connReader) Read(b []byte) (int, error) {
	c := (*conn)(cr)
	c.mu.Lock()
	c.startLocked()
	c.handOverLocked()
	if c.goAwaySent { // a client that is still sending may also be reading, and must not be cut off
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
