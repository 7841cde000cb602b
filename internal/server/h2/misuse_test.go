package h2

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/summerwind/h2spec"
	"github.com/summerwind/h2spec/config"
	"golang.org/x/net/http2"
)

func TestServerFollowsTheSpecification(t *testing.T) {
	w := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, "answer")
	})
	host, text, _ := strings.Cut(w.address, ":")
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	c := &config.Config{Host: host, Port: port, Path: "/", Timeout: 2 * time.Second, MaxHeaderLen: 4000, TLS: true, Insecure: true}
	ok, err := false, error(nil)
	said := captured(t, func() { ok, err = h2spec.Run(c) })
	if err != nil || !ok {
		t.Errorf("%v\n%s", err, said)
	}
}

// captured returns what do prints.
func captured(t *testing.T, do func()) []byte {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	stdout := os.Stdout
	os.Stdout = file
	defer func() { os.Stdout = stdout }()
	do()
	said, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return said
}

func TestProtocolErrorsAreReportedAndChangeNothing(t *testing.T) {
	const conn = 0
	for _, tt := range []struct {
		name string
		do   func(b *bare)
		id   uint32
		code http2.ErrCode
	}{
		{"a stream of the server's", func(b *bare) { b.ask(2, true) }, conn, http2.ErrCodeProtocol},
		{"a stream that was left out", func(b *bare) { b.ask(5, true); b.ask(3, true) }, conn, http2.ErrCodeStreamClosed},
		{"data before a head", func(b *bare) { b.must(b.WriteData(1, true, nil)) }, conn, http2.ErrCodeProtocol},
		{"a window too large", func(b *bare) { b.must(b.WriteWindowUpdate(0, largestWindow)) }, conn, http2.ErrCodeFlowControl},
		{"a stream's window too large", func(b *bare) { b.ask(1, false); b.must(b.WriteWindowUpdate(1, largestWindow)) }, 1, http2.ErrCodeFlowControl},
		{"more than the window", func(b *bare) {
			b.ask(1, false, "expect", "100-continue")
			for range streamWindow/largestFrame + 1 {
				b.must(b.WriteData(1, false, make([]byte, largestFrame)))
			}
		}, 1, http2.ErrCodeFlowControl},
		{"more than the connection's window", func(b *bare) {
			for id := range uint32(connWindow/streamWindow + 1) {
				b.ask(1+2*id, false)
				for range streamWindow / largestFrame {
					b.must(b.WriteData(1+2*id, false, make([]byte, largestFrame)))
				}
			}
		}, conn, http2.ErrCodeFlowControl},
		{"less than was declared", func(b *bare) { b.ask(1, false, "content-length", "5"); b.must(b.WriteData(1, true, []byte("four"))) }, 1, http2.ErrCodeProtocol},
		{"more than was declared", func(b *bare) { b.ask(1, false, "content-length", "3"); b.must(b.WriteData(1, true, []byte("four"))) }, 1, http2.ErrCodeProtocol},
		{"no body though one was declared", func(b *bare) { b.ask(1, true, "content-length", "3") }, 1, http2.ErrCodeProtocol},
		{"two lengths", func(b *bare) { b.ask(1, false, "content-length", "3", "content-length", "4") }, 1, http2.ErrCodeProtocol},
		{"a field of HTTP/1", func(b *bare) { b.ask(1, true, "transfer-encoding", "chunked") }, 1, http2.ErrCodeProtocol},
		{"capital letters", func(b *bare) { b.ask(1, true, "Accept", "x") }, 1, http2.ErrCodeProtocol},
		{"no path", func(b *bare) { b.head(1, true, ":method", "GET", ":scheme", "https") }, 1, http2.ErrCodeProtocol},
		{"a path that is none", func(b *bare) { b.head(1, true, ":method", "GET", ":scheme", "https", ":path", "x y") }, 1, http2.ErrCodeProtocol},
		{"a path of elsewhere", func(b *bare) { b.head(1, true, ":method", "GET", ":scheme", "https", ":path", "http://x/") }, 1, http2.ErrCodeProtocol},
		{"a scheme of elsewhere", func(b *bare) { b.head(1, true, ":method", "GET", ":scheme", "file", ":path", "/") }, 1, http2.ErrCodeProtocol},
		{"a protocol", func(b *bare) {
			b.head(1, true, ":method", "GET", ":scheme", "https", ":path", "/", ":protocol", "websocket")
		}, 1, http2.ErrCodeProtocol},
		{"a promise", func(b *bare) {
			b.must(b.WritePushPromise(http2.PushPromiseParam{StreamID: 1, PromiseID: 2, EndHeaders: true}))
		}, conn, http2.ErrCodeProtocol},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var served atomic.Int32
			w := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
				served.Add(1)
			})
			b := w.bare()
			tt.do(b)
			if id, code := b.fault(); id != tt.id || code != tt.code {
				t.Errorf("stream %d, %v", id, code)
			}
		})
	}
}

func TestTooManyStreamsAreRefused(t *testing.T) {
	w := serve(t, Options{MaxStreams: 3}, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	b := w.bare()
	for id := range uint32(4) {
		b.ask(1+2*id, true)
	}
	if id, code := b.fault(); id != 7 || code != http2.ErrCodeRefusedStream {
		t.Errorf("stream %d, %v", id, code)
	}
}

func TestHandlersOfCancelledRequestsAreBounded(t *testing.T) {
	started, release := make(chan struct{}, 7), make(chan struct{})
	w := serve(t, Options{MaxStreams: 3}, func(http.ResponseWriter, *http.Request) {
		started <- struct{}{}
		<-release
	})
	defer close(release)
	b := w.bare()
	for i := range uint32(7) {
		b.ask(1+2*i, true)
		if i < 6 {
			<-started
		}
		b.must(b.WriteRSTStream(1+2*i, http2.ErrCodeCancel))
	}
	if id, code := b.fault(); id != 13 || code != http2.ErrCodeRefusedStream {
		t.Errorf("stream %d, %v", id, code)
	}
}

func TestHeadThatIsTooLongIsRefused(t *testing.T) {
	w := serve(t, Options{MaxHeader: 2000}, echo)
	b := w.bare()
	b.ask(1, true, slices.Repeat([]string{"long", strings.Repeat("x", 400)}, 5)...)
	f := b.until(func(f http2.Frame) bool { return f.Header().Type == http2.FrameHeaders })
	if status := f.(*http2.MetaHeadersFrame).PseudoValue("status"); status != "431" {
		t.Errorf("answered with %s", status)
	}
}

func TestClientThatSendsRequestsAndNeverReadsIsDisconnected(t *testing.T) {
	w := serve(t, Options{IdleTimeout: 20 * time.Millisecond}, echo)
	b := w.bare()
	for range 10_000_000 {
		if err := b.WritePing(false, [8]byte{}); err != nil {
			return
		}
	}
	t.Error("it may go on for ever")
}
