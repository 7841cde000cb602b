package h2

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

func echo(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Seen", r.Header.Get("Said"))
	w.Write(b)
}

func TestBodiesLargerThanAllWindowsArriveBothWays(t *testing.T) {
	w := serve(t, Options{}, echo)
	body := bytes.Repeat([]byte("0123456789abcdef"), 500<<10)
	answer, b := w.do(w.client(), "POST", "/", bytes.NewReader(body))
	if answer.StatusCode != 200 || !bytes.Equal(b, body) {
		t.Errorf("status %d, %d bytes of %d", answer.StatusCode, len(b), len(body))
	}
}

func TestRequestsAreThoseThatHandlersExpect(t *testing.T) {
	w := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s %s %s %s %v %v %v %v", r.Method, r.RequestURI, r.URL.Query().Get("q"), r.Host, r.Proto,
			r.Header["X-Many"], r.Header["Cookie"], r.TLS != nil && r.TLS.HandshakeComplete, r.RemoteAddr != "")
		if r.Context().Value(http.ServerContextKey) == nil || r.Context().Value(http.LocalAddrContextKey) == nil {
			io.WriteString(w, " without its server")
		}
	})
	b := w.bare()
	b.ask(1, true, ":path", "/") // a header field twice: refused
	if id, code := b.fault(); id != 1 || code != http2.ErrCodeProtocol {
		t.Errorf("a path that comes twice: %d %v", id, code)
	}
	b.head(3, true, ":method", "GET", ":scheme", "https", ":path", "/a/b?q=1", ":authority", "example.com", "x-many", "1", "x-many", "2", "cookie", "a=b", "cookie", "c=d")
	f := b.until(func(f http2.Frame) bool { return f.Header().Type == http2.FrameData })
	if got, want := string(f.(*http2.DataFrame).Data()), "GET /a/b?q=1 1 example.com HTTP/2.0 [1 2] [a=b; c=d] true true"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// answers are handlers, and what their clients receive.
var answers = []struct {
	name    string
	handler http.HandlerFunc
	method  string // GET if empty
	body    string
	status  int // 200 if zero
	length  int64
	header  map[string]string // "" for a field that must be missing
	trailer map[string]string
}{
	{name: "short", handler: func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<html>short") },
		body: "<html>short", length: 11, header: map[string]string{"Content-Type": "text/html; charset=utf-8"}},
	{name: "head", handler: func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "short") }, method: "HEAD", length: 5},
	{name: "flushed", handler: func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "flushed")
		w.(http.Flusher).Flush()
		io.WriteString(w, " and more")
	}, body: "flushed and more", length: -1},
	{name: "none", handler: func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNoContent)
		if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrBodyNotAllowed) {
			panic(err)
		}
	}, status: 204, header: map[string]string{"Content-Length": ""}},
	{name: "empty", handler: func(http.ResponseWriter, *http.Request) {}, header: map[string]string{"Content-Type": ""}},
	{name: "hints", handler: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(http.StatusEarlyHints)
		io.WriteString(w, "after")
	}, body: "after", length: 5, header: map[string]string{"Link": "</style.css>"}},
	{name: "hops", handler: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "keep-alive")
		w.Header().Set("Bad", "a\nb")
		w.Header()["Bad Name"] = []string{"x"}
		w.WriteHeader(http.StatusTeapot)
		w.Header().Set("Late", "x")
	}, status: 418, header: map[string]string{"Connection": "", "Bad": "", "Late": ""}},
	{name: "trailers", handler: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Sum")
		io.WriteString(w, "body")
		w.Header().Set("Sum", "1")
		w.Header().Set(http.TrailerPrefix+"Late", "2")
	}, body: "body", length: 4, trailer: map[string]string{"Sum": "1", "Late": "2"}},
}

func TestClientsReceiveWhatHandlersAnswer(t *testing.T) {
	for _, tt := range answers {
		t.Run(tt.name, func(t *testing.T) {
			w := serve(t, Options{}, tt.handler)
			answer, b := w.do(w.client(), cmp.Or(tt.method, "GET"), "/", nil)
			if string(b) != tt.body || answer.StatusCode != cmp.Or(tt.status, 200) || answer.ContentLength != tt.length || answer.Header.Get("Date") == "" {
				t.Errorf("%d, %d bytes declared, %q, %v", answer.StatusCode, answer.ContentLength, b, answer.Header)
			}
			for name, want := range tt.header {
				if got := answer.Header.Get(name); got != want {
					t.Errorf("%s is %q", name, got)
				}
			}
			for name, want := range tt.trailer {
				if got := answer.Trailer.Get(name); got != want {
					t.Errorf("behind the body %s is %q", name, got)
				}
			}
		})
	}
}

func TestAnswerOfAnotherLengthThanDeclaredIsAnError(t *testing.T) {
	w := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "8")
		if _, err := io.WriteString(w, "too long!"); !errors.Is(err, http.ErrContentLength) {
			panic(err)
		}
		io.WriteString(w, "short")
	})
	answer, err := w.client().Get(w.web.URL)
	if err != nil {
		return // it was cut off before its head
	}
	defer answer.Body.Close()
	if b, err := io.ReadAll(answer.Body); err == nil {
		t.Errorf("it ended well: %q", b)
	}
}

func TestClientThatExpects100ContinueGetsIt(t *testing.T) {
	w := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/no" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		echo(w, r)
	})
	for path, status := range map[string]int{"/yes": 200, "/no": 403} {
		r, err := http.NewRequestWithContext(t.Context(), "POST", w.web.URL+path, strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Expect", "100-continue")
		if answer, b := w.send(w.client(), r); answer.StatusCode != status || status == 200 && string(b) != "body" {
			t.Errorf("%s: %d %q", path, answer.StatusCode, b)
		}
	}
}

func TestRequestsOfOneConnectionDoNotMix(t *testing.T) {
	w := serve(t, Options{MaxStreams: 1000}, func(w http.ResponseWriter, r *http.Request) {
		rng := rand.New(rand.NewPCG(1, uint64(r.ContentLength)))
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		for len(b) > 0 {
			n := min(len(b), 1+rng.IntN(40_000))
			if _, err := w.Write(b[:n]); err != nil {
				return
			}
			if b = b[n:]; rng.IntN(3) == 0 {
				w.(http.Flusher).Flush()
			}
		}
	})
	c := w.client()
	var clients sync.WaitGroup
	for i := range 200 {
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(2, uint64(i)))
			for range 5 {
				body := bytes.Repeat([]byte{byte('a' + i%26)}, rng.IntN(300_000))
				ctx, cancel := context.WithCancel(t.Context())
				r, err := http.NewRequestWithContext(ctx, "POST", w.web.URL, bytes.NewReader(body))
				if err != nil {
					t.Error(err)
				}
				answer, err := c.Do(r)
				if err != nil {
					t.Error(err)
					cancel()
					return
				}
				if rng.IntN(4) == 0 {
					cancel() // in the middle of the answer
				} else if b, err := io.ReadAll(answer.Body); err != nil || !bytes.Equal(b, body) {
					t.Errorf("%d bytes of %d: %v", len(b), len(body), err)
				}
				answer.Body.Close()
				cancel()
			}
		})
	}
	clients.Wait()
}

func TestStreamThatIsNotReadDelaysNoOther(t *testing.T) {
	stuck := make(chan error, 1)
	w := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/endless" {
			for {
				if _, err := w.Write(make([]byte, 10_000)); err != nil {
					stuck <- err
					return
				}
			}
		}
		io.WriteString(w, "answer")
	})
	b := w.bare()
	b.must(b.WriteWindowUpdate(0, 1<<30))
	b.head(1, true, ":method", "GET", ":scheme", "https", ":path", "/endless", ":authority", "x")
	got := 0
	b.until(func(f http2.Frame) bool {
		if f.Header().Type == http2.FrameData {
			got += int(f.Header().Length)
		}
		return got == firstWindow
	})
	b.ask(3, true)
	if f := b.until(func(f http2.Frame) bool { return f.Header().StreamID == 3 && f.Header().Type == http2.FrameData }); f == nil {
		t.Fatal("no answer beside a stream that is stuck")
	}
	b.must(b.WriteRSTStream(1, http2.ErrCodeCancel))
	if err := <-stuck; !errors.Is(err, errStopped) {
		t.Errorf("the blocked handler got %v", err)
	}
}

func TestHandlerLearnsThatItsClientHasDisconnected(t *testing.T) {
	for _, how := range []string{"cancel", "close"} {
		begun, heard := make(chan struct{}), make(chan error, 2)
		w := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			close(begun)
			<-r.Context().Done()
			_, err := r.Body.Read(make([]byte, 1))
			heard <- err
			_, err = w.Write(make([]byte, maxBuffered+1))
			heard <- err
		})
		b := w.bare()
		b.ask(1, false)
		<-begun
		if how == "cancel" {
			b.must(b.WriteRSTStream(1, http2.ErrCodeCancel))
		} else {
			b.net.Close()
		}
		for range 2 {
			if err := <-heard; err == nil || errors.Is(err, io.EOF) {
				t.Errorf("%s: got %v", how, err)
			}
		}
	}
}

func TestPanicEndsOnlyItsStream(t *testing.T) {
	w := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			io.WriteString(w, "begun")
			w.(http.Flusher).Flush()
			panic(r.URL.Path)
		}
		io.WriteString(w, "well")
	})
	b := w.bare()
	b.head(1, true, ":method", "GET", ":scheme", "https", ":path", "/panic", ":authority", "x")
	if id, code := b.fault(); id != 1 || code != http2.ErrCodeInternal {
		t.Errorf("got %d %v", id, code)
	}
	b.ask(3, true)
	if f := b.until(func(f http2.Frame) bool { return f.Header().Type == http2.FrameData }); string(f.(*http2.DataFrame).Data()) != "well" {
		t.Error("the connection does not go on")
	}
}

func TestDeadlinesPass(t *testing.T) {
	heard := make(chan error, 1)
	w := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if r.Method == "POST" {
			if err := control.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
				panic(err)
			}
			_, err := io.ReadAll(r.Body)
			heard <- err
			return
		}
		if err := control.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
			panic(err)
		}
		_, err := w.Write(make([]byte, 10*firstWindow))
		heard <- err
	})
	b := w.bare()
	b.head(1, false, ":method", "POST", ":scheme", "https", ":path", "/", ":authority", "x")
	if err := <-heard; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("reading: %v", err)
	}
	b.ask(3, true)
	if err := <-heard; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("writing: %v", err)
	}
	if id, _ := b.fault(); id != 1 { // it was answered without being read
		t.Errorf("stream %d", id)
	}
	if id, code := b.fault(); id != 3 || code != http2.ErrCodeInternal {
		t.Errorf("what could not be sent ended with %d %v", id, code)
	}
}

func TestOpenRequestsFinishWhenTheServerDrains(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	w := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-release
		io.WriteString(w, "answer")
	})
	idle, busy := w.bare(), w.bare()
	busy.ask(1, true)
	<-begun
	idle.until(func(f http2.Frame) bool {
		return f.Header().Type == http2.FrameSettings && f.(*http2.SettingsFrame).IsAck()
	})
	w.server.Drain()
	for _, b := range []*bare{idle, busy} {
		if id, code := b.fault(); id != 0 || code != http2.ErrCodeNo {
			t.Errorf("got %d %v", id, code)
		}
	}
	if f := idle.until(func(http2.Frame) bool { return true }); f != nil {
		t.Errorf("an idle connection goes on with %v", f)
	}
	busy.ask(3, true) // is ignored
	close(release)
	f := busy.until(func(f http2.Frame) bool { return f.Header().Type == http2.FrameData })
	if f == nil || f.Header().StreamID != 1 {
		t.Errorf("the request under way was answered with %v", f)
	}
	if f := busy.until(func(http2.Frame) bool { return true }); f != nil {
		t.Errorf("the connection goes on with %v", f)
	}
	idle.net.Close()
	busy.net.Close()
	w.server.Wait()
}

func TestIdleConnectionIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newPipeServer(t, Options{IdleTimeout: time.Second}, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Minute) // longer than an idle connection would last
		})
		b := a.bare()
		b.ask(1, true)
		if f := b.until(func(f http2.Frame) bool { return f.Header().StreamID == 1 || f.Header().Type == http2.FrameGoAway }); f.Header().StreamID != 1 {
			t.Error("ended while a request was served")
		}
		if id, code := b.fault(); id != 0 || code != http2.ErrCodeNo {
			t.Errorf("ended with %d %v", id, code)
		}
	})
}

func TestSilentClientIsDisconnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newPipeServer(t, Options{}, echo)
		if _, err := io.Copy(io.Discard, a.dial()); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.ErrClosedPipe) {
			t.Error(err)
		}
		a.server.Wait()
	})
}
