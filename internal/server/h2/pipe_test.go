package h2

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"golang.org/x/net/http2"
)

// certificates are made by httptest, once, for servers without a listener.
var certificates = sync.OnceValue(func() []tls.Certificate {
	web := httptest.NewTLSServer(nil)
	defer web.Close()
	return web.TLS.Certificates
})

// pipeServer is a server whose connections have no buffer: a side that does not read blocks the other side's writes.
type pipeServer struct {
	t       *testing.T
	server  *Server
	handler http.HandlerFunc
	serving sync.WaitGroup
}

func newPipeServer(t *testing.T, o Options, h http.HandlerFunc) *pipeServer {
	a := &pipeServer{t: t, server: New(o), handler: h}
	t.Cleanup(func() {
		a.server.Close()
		a.serving.Wait()
	})
	return a
}

// dial connects. The client's first bytes are written while nothing reads those of the server.
func (p *pipeServer) dial() *tls.Conn {
	p.t.Helper()
	near, far := net.Pipe()
	server := tls.Server(far, &tls.Config{Certificates: certificates(), NextProtos: []string{"h2"}})
	p.serving.Go(func() {
		defer far.Close()
		if server.Handshake() == nil {
			p.server.serve(nil, server, p.handler)
		}
	})
	client := tls.Client(near, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	p.t.Cleanup(func() { near.Close() })
	if err := client.Handshake(); err != nil {
		p.t.Fatal(err)
	}
	return client
}

// bare connects and sends the connection preface.
func (p *pipeServer) bare(settings ...http2.Setting) *bare {
	p.t.Helper()
	secure := p.dial()
	b := newBare(p.t, secure)
	if _, err := io.WriteString(secure, http2.ClientPreface); err != nil {
		p.t.Fatal(err)
	}
	b.must(b.WriteSettings(settings...))
	return b
}

// together sends frames in one TLS record.
func (b *bare) together(do func(*bare)) {
	b.t.Helper()
	var all bytes.Buffer
	do(&bare{Framer: http2.NewFramer(&all, nil), t: b.t, pack: b.pack, block: b.block})
	_, err := b.net.Write(all.Bytes())
	b.must(err)
}

// open sends a GET request for a path.
func (b *bare) open(id uint32, path string) {
	b.t.Helper()
	b.head(id, true, ":method", "GET", ":scheme", "https", ":path", path, ":authority", "example.com")
}

// data reads until data of a stream arrives.
func (b *bare) data(id uint32) []byte {
	b.t.Helper()
	f := b.until(func(f http2.Frame) bool {
		return f.Header().Type == http2.FrameData && f.Header().StreamID == id
	})
	if f == nil {
		b.t.Fatalf("no data of stream %d", id)
	}
	return f.(*http2.DataFrame).Data()
}
