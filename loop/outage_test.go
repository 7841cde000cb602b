package loop

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/queue"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (rt roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return rt(r) }

func TestOutageIsToldOnce(t *testing.T) {
	var said bytes.Buffer
	var away bool
	clients, err := NewClients(&rest.Config{Host: "http://api", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if err := context.Cause(r.Context()); err != nil {
			return nil, err
		}
		if away {
			return nil, errors.New("nobody listens")
		}
		answer := httptest.NewRecorder()
		http.NotFound(answer, r)
		return answer.Result(), nil
	})}, slog.New(slog.NewTextHandler(&said, nil)))
	if err != nil {
		t.Fatal(err)
	}
	l := &Loop{Name: "tries", Clients: clients.Named("it")}
	try := func(ctx context.Context) {
		_, err := clients.Kube.CoreV1().Nodes().Get(ctx, "n", metav1.GetOptions{})
		l.report(ctx, Key{Name: "n"}, queue.Terminal(err))
	}
	for _, step := range []struct {
		away bool
		want string // the level of each line, and a word from it
	}{
		{false, `ERROR "sync failed"`},
		{true, `WARN "the API server cannot be reached; retrying"`},
		{false, `WARN "the API server can be reached again" ERROR "sync failed"`},
		{true, `WARN "the API server cannot be reached; retrying"`},
	} {
		said.Reset()
		away = step.away
		try(t.Context())
		if step.away {
			try(t.Context())
			try(t.Context())
		}
		if got := levels(said.String()); got != step.want {
			t.Errorf("away %v: it said %s, want %s", step.away, got, step.want)
		}
	}
	away = false
	try(t.Context())
	said.Reset()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	away = true
	try(gone)
	if strings.Contains(said.String(), "cannot be reached") {
		t.Error("who gives up is taken for an outage")
	}
}

// levels returns the level and message of each line of a log.
func levels(log string) string {
	var all []string
	for line := range strings.Lines(log) {
		_, rest, _ := strings.Cut(line, "level=")
		level, rest, _ := strings.Cut(rest, " msg=")
		end := strings.Index(rest[1:], `"`) + 2
		all = append(all, level+" "+rest[:end])
	}
	return strings.Join(all, " ")
}
