package h2

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Wire counts the bytes of connections.
type Wire struct{ In, Out atomic.Int64 }

// counted is a connection whose bytes are counted.
type counted struct {
	net.Conn
	wire *Wire
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.wire.In.Add(int64(n))
	return n, err
}

func (c counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.wire.Out.Add(int64(n))
	return n, err
}

// Windows: what a server may send before a WINDOW_UPDATE. They are those of Go's own client.
const (
	streamWindow     = 4 << 20
	connectionWindow = 1 << 30
	firstWindow      = 65535 // the initial window of a connection, in RFC 9113
)

// Dial opens a connection. Its reader ends when the connection is closed.
func Dial(ctx context.Context, address string, config *tls.Config, wire *Wire) (*Conn, error) {
	config = config.Clone()
	config.NextProtos = []string{"h2"}
	plain, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	secure := tls.Client(counted{plain, wire}, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		plain.Close()
		return nil, fmt.Errorf("TLS with %s: %w", address, err)
	}
	c := &Conn{
		net: secure, authority: address, out: bufio.NewWriterSize(secure, 16<<10),
		streams: map[uint32]*stream{}, next: 1,
		sendWindow: firstWindow, initialWindow: firstWindow, maxFrame: 16384, maxStreams: 100,
		settled: make(chan struct{}), ended: make(chan struct{}),
	}
	c.writable = sync.NewCond(&c.mu)
	c.framer = http2.NewFramer(c.out, bufio.NewReaderSize(secure, 64<<10))
	c.framer.SetReuseFrames()
	c.framer.SetMaxReadFrameSize(1 << 20)
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.encoder = hpack.NewEncoder(&c.block)
	if err := c.greet(); err != nil {
		secure.Close()
		return nil, err
	}
	go c.read()
	select {
	case <-c.settled:
		return c, nil
	case <-c.ended:
		return nil, c.cause()
	case <-ctx.Done():
		c.Close()
		return nil, ctx.Err()
	}
}

func (c *Conn) greet() error {
	if _, err := c.out.WriteString(http2.ClientPreface); err != nil {
		return err
	}
	err := c.framer.WriteSettings(
		http2.Setting{ID: http2.SettingEnablePush, Val: 0},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: streamWindow},
		http2.Setting{ID: http2.SettingMaxFrameSize, Val: 16384},
	)
	if err != nil {
		return err
	}
	if err := c.framer.WriteWindowUpdate(0, connectionWindow-firstWindow); err != nil {
		return err
	}
	return c.out.Flush()
}

// Conn is a connection to one server.
type Conn struct {
	net       net.Conn
	authority string

	// mu guards all following fields. It is held while frames are written, so that header blocks are not mixed.
	mu            sync.Mutex
	out           *bufio.Writer
	framer        *http2.Framer // written while mu is held; only the reader reads
	block         bytes.Buffer
	encoder       *hpack.Encoder
	streams       map[uint32]*stream
	next          uint32
	writable      *sync.Cond // signalled when more can be sent
	sendWindow    int64
	initialWindow int64
	maxFrame      int
	maxStreams    int
	err           error

	received int64 // bytes of bodies since the last WINDOW_UPDATE; only the reader uses it
	settle   sync.Once
	settled  chan struct{}
	ended    chan struct{}
}

// stream is one request and its answer.
type stream struct {
	id       uint32
	sink     Sink
	window   int64 // for sending; guarded by the connection's mu
	received int64 // only the reader uses it
}

// Sink receives an answer. The connection's reader makes all calls, one after the other; End is the last.
type Sink interface {
	Head(status int, header []hpack.HeaderField)
	Data(b []byte)
	// End is called at the end of the answer; err is nil if the answer is complete.
	End(err error)
}

// MaxStreams returns how many streams the server allows at the same time.
func (c *Conn) MaxStreams() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.maxStreams
}

// Close closes the connection and waits for its reader. All open answers end.
func (c *Conn) Close() {
	c.net.Close()
	<-c.ended
}

func (c *Conn) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}
