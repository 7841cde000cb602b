package h2

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a server, and what its clients need.
type world struct {
	t       *testing.T
	server  *Server
	web     *httptest.Server
	address string
}

func serve(t *testing.T, o Options, h http.HandlerFunc) *world {
	t.Helper()
	w := &world{t: t, server: New(o), web: httptest.NewUnstartedServer(h)}
	w.server.Serve(w.web.Config)
	w.web.TLS = &tls.Config{NextProtos: []string{"h2", "http/1.1"}}
	w.web.StartTLS()
	w.address = w.web.Listener.Addr().String()
	t.Cleanup(func() {
		w.server.Close()
		w.web.Close()
	})
	return w
}

// client returns an HTTP client of Go that speaks HTTP/2.
func (w *world) client() *http.Client {
	pool := x509.NewCertPool()
	pool.AddCert(w.web.Certificate())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true, ExpectContinueTimeout: 5 * time.Second}
	w.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (w *world) do(c *http.Client, method, path string, body io.Reader) (*http.Response, []byte) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, w.web.URL+path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.send(c, r)
}

func (w *world) send(c *http.Client, r *http.Request) (*http.Response, []byte) {
	w.t.Helper()
	answer, err := c.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	if answer.ProtoMajor != 2 {
		w.t.Fatalf("answered with %s", answer.Proto)
	}
	return answer, b
}

// bare is a client that can send any frames.
type bare struct {
	*http2.Framer
	t     *testing.T
	net   *tls.Conn
	block *bytes.Buffer
	pack  *hpack.Encoder
}

// dial connects and sends nothing.
func (w *world) dial() *tls.Conn {
	w.t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(w.web.Certificate())
	plain, err := net.Dial("tcp", w.address)
	if err != nil {
		w.t.Fatal(err)
	}
	secure := tls.Client(plain, &tls.Config{RootCAs: pool, ServerName: "example.com", NextProtos: []string{"h2"}})
	w.t.Cleanup(func() { secure.Close() })
	if err := secure.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		w.t.Fatal(err)
	}
	return secure
}

// bare connects and sends the connection preface.
func (w *world) bare(settings ...http2.Setting) *bare {
	w.t.Helper()
	secure := w.dial()
	if _, err := io.WriteString(secure, http2.ClientPreface); err != nil {
		w.t.Fatal(err)
	}
	b := newBare(w.t, secure)
	b.must(b.WriteSettings(settings...))
	return b
}

func newBare(t *testing.T, secure *tls.Conn) *bare {
	b := &bare{Framer: http2.NewFramer(secure, secure), t: t, net: secure, block: new(bytes.Buffer)}
	b.pack = hpack.NewEncoder(b.block)
	b.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	return b
}

func (b *bare) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// ask sends the head of a request.
func (b *bare) ask(id uint32, end bool, pairs ...string) {
	b.t.Helper()
	pairs = append([]string{":method", "GET", ":scheme", "https", ":path", "/", ":authority", "example.com"}, pairs...)
	b.head(id, end, pairs...)
}

func (b *bare) head(id uint32, end bool, pairs ...string) {
	b.t.Helper()
	b.block.Reset()
	for i := 0; i < len(pairs); i += 2 {
		b.must(b.pack.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]}))
	}
	b.must(b.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: b.block.Bytes(), EndStream: end, EndHeaders: true}))
}

// until reads frames until good returns true. It returns nil if the connection has ended.
func (b *bare) until(good func(http2.Frame) bool) http2.Frame {
	b.t.Helper()
	for {
		f, err := b.ReadFrame()
		if err != nil {
			return nil
		}
		if good(f) {
			return f
		}
	}
}

// fault reads until the server resets a stream or sends GOAWAY, and returns the error code.
func (b *bare) fault() (stream uint32, code http2.ErrCode) {
	b.t.Helper()
	f := b.until(func(f http2.Frame) bool {
		kind := f.Header().Type
		return kind == http2.FrameRSTStream || kind == http2.FrameGoAway
	})
	switch f := f.(type) {
	case *http2.RSTStreamFrame:
		return f.StreamID, f.ErrCode
	case *http2.GoAwayFrame:
		return 0, f.ErrCode
	}
	b.t.Fatal("the connection ended without a word")
	return 0, 0
}
