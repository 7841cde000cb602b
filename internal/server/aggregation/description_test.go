package aggregation_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/server/aggregation"
	"github.com/millrace/millrace/internal/server/auth"
)

// available waits until requests for flunders are handed on.
func (w *world) available() {
	w.Helper()
	w.condition("v1.wardle.example", "Passed")
	for {
		answer := w.ask(flunders, auth.User{}, httptest.NewRequest(http.MethodGet, "/apis/wardle.example/v1", nil))
		if answer.StatusCode == http.StatusOK {
			return
		}
	}
}

func TestAServerIsAskedForItsDescriptionOnlyWhenSomebodyWantsToSeeIt(t *testing.T) {
	var asked atomic.Int32
	w := newWorld(t, nil)
	w.serveElsewhere(flunders, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/apis/wardle.example/v1":
			io.WriteString(w, resources)
		case "/openapi/v2":
			asked.Add(1)
			w.Header().Set("Etag", `"1"`)
			io.WriteString(w, `{"swagger":"2.0"}`)
		default:
			http.NotFound(w, r)
		}
	}))
	w.available()
	if n := asked.Load(); n != 0 {
		t.Errorf("the server was asked %d times before anybody wanted to know", n)
	}
	var all []aggregation.Description
	for range 3 {
		all = w.a.Descriptions(t.Context())
	}
	if len(all) != 1 || all[0].Group != "wardle.example" || string(all[0].Text) != `{"swagger":"2.0"}` || all[0].Tag == "" {
		t.Errorf("descriptions %+v", all)
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the server was asked %d times within a minute, want once", n)
	}
}

func TestAServerThatDescribesItselfWithoutEndIsLeftOut(t *testing.T) {
	w := newWorld(t, nil)
	w.serveElsewhere(flunders, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/apis/wardle.example/v1":
			io.WriteString(w, resources)
		case "/openapi/v2":
			page := []byte(strings.Repeat("x", 1<<20))
			for range 40 {
				if _, err := w.Write(page); err != nil {
					return
				}
			}
		default:
			http.NotFound(w, r)
		}
	}))
	w.available()
	if all := w.a.Descriptions(t.Context()); len(all) != 0 {
		t.Errorf("%d descriptions, of %d bytes", len(all), len(all[0].Text))
	}
}

// echo takes over connections that ask for the protocol "spdy/3.1", and sends back each line that it gets.
func echo(t *testing.T) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/apis/wardle.example/v1" {
			io.WriteString(w, resources)
			return
		}
		if r.Header.Get("Upgrade") != "SPDY/3.1" {
			http.NotFound(w, r)
			return
		}
		conn, both, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Errorf("the connection came as %s: %v", r.Proto, err)
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-User: %s\r\n\r\n", r.Header.Get("X-Remote-User"))
		for {
			line, err := both.ReadString('\n')
			if err != nil {
				return
			}
			io.WriteString(conn, "echo "+line)
		}
	})
}

func TestConnectionsThatSpeakSomethingElsePassBothWaysUntilOneEndCloses(t *testing.T) {
	w := newWorld(t, nil)
	w.serveElsewhere(flunders, echo(t))
	w.available()
	front := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, q *http.Request) {
		w.a.Handler(flunders).ServeHTTP(out, q.WithContext(auth.WithUser(q.Context(), auth.User{Name: "jane"})))
	}))
	defer front.Close()
	q, err := http.NewRequest(http.MethodPost, front.URL+"/apis/wardle.example/v1/flunders/f/exec", nil)
	w.must(err)
	q.Header.Set("Connection", "Upgrade")
	q.Header.Set("Upgrade", "SPDY/3.1")
	answer, err := front.Client().Do(q)
	w.must(err)
	if answer.StatusCode != http.StatusSwitchingProtocols || answer.Header.Get("X-User") != "jane" {
		t.Fatalf("answer %d %v", answer.StatusCode, answer.Header)
	}
	stream := answer.Body.(io.ReadWriteCloser)
	lines := bufio.NewReader(stream)
	for _, size := range []int{1, 100_000, 3} {
		sent := strings.Repeat("x", size) + "\n"
		_, err := io.WriteString(stream, sent)
		w.must(err)
		if got, err := lines.ReadString('\n'); err != nil || got != "echo "+sent {
			t.Fatalf("of %d bytes %d came back: %v", len(sent), len(got)-len("echo "), err)
		}
	}
	w.must(stream.Close())
}

func TestAnUpgradeThatTheServerRefusesIsAnswered(t *testing.T) {
	w := newWorld(t, nil)
	w.serveElsewhere(flunders, echo(t))
	w.available()
	front := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, q *http.Request) { w.a.Handler(flunders).ServeHTTP(out, q) }))
	defer front.Close()
	q, err := http.NewRequest(http.MethodGet, front.URL+"/apis/wardle.example/v1/flunders/f/exec", nil)
	w.must(err)
	q.Header.Set("Connection", "Upgrade")
	q.Header.Set("Upgrade", "websocket")
	client := front.Client()
	client.Timeout = time.Minute
	answer, err := client.Do(q)
	w.must(err)
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusNotFound {
		t.Errorf("answer %d", answer.StatusCode)
	}
}
