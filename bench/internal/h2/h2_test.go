package h2

import (
	"bytes"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2/hpack"
)

func serve(t *testing.T, h http.HandlerFunc) (*Conn, *Wire) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	wire := &Wire{}
	c, err := Dial(t.Context(), strings.TrimPrefix(s.URL, "https://"), &tls.Config{InsecureSkipVerify: true}, wire)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, wire
}

func TestBodiesLargerThanTheWindowsArriveBothWays(t *testing.T) {
	c, wire := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Kind", r.Header.Get("Kind"))
		w.Write(b)
	})
	body := bytes.Repeat([]byte("0123456789abcdef"), 600<<10) // 9.6 MB
	a, err := c.Do(t.Context(), Request{Method: "POST", Path: "/x", Header: []hpack.HeaderField{{Name: "kind", Value: "echo"}}, Body: body})
	if err != nil {
		t.Fatal(err)
	}
	if a.Status != 200 || !bytes.Equal(a.Body, body) {
		t.Fatalf("status %d, %d bytes of %d", a.Status, len(a.Body), len(body))
	}
	if wire.In.Load() < int64(len(body)) || wire.Out.Load() < int64(len(body)) {
		t.Errorf("counted %d in, %d out", wire.In.Load(), wire.Out.Load())
	}
}

func TestManyCallersShareAConnection(t *testing.T) {
	c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.Path) })
	var callers sync.WaitGroup
	for i := range 300 {
		callers.Go(func() {
			path := "/" + strings.Repeat("x", i)
			b, err := c.Expect(t.Context(), Request{Method: "GET", Path: path})
			if err != nil || string(b) != path {
				t.Errorf("%q: %q, %v", path, b, err)
			}
		})
	}
	callers.Wait()
}

func TestFailureIsReportedWithItsWords(t *testing.T) {
	c, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such thing", http.StatusNotFound) })
	_, err := c.Expect(t.Context(), Request{Method: "GET", Path: "/"})
	if err == nil || !strings.Contains(err.Error(), "404") || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("got %v", err)
	}
}

func TestClosingEndsWhatIsOpen(t *testing.T) {
	c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	w := &whole{done: make(chan struct{})}
	if _, err := c.Open(Request{Method: "GET", Path: "/"}, w); err != nil {
		t.Fatal(err)
	}
	c.Close()
	<-w.done
	if w.err == nil {
		t.Error("the open answer ended as if it were complete")
	}
	if _, err := c.Do(t.Context(), Request{Method: "GET", Path: "/"}); err == nil {
		t.Error("a closed connection took a request")
	}
}
