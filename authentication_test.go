package millrace_test

import (
	"io"
	"net/http"
	"net/http/httptrace"
	"testing"

	"github.com/millrace/millrace"
	"k8s.io/client-go/rest"
)

// connectionsFor counts the connections that a client needs for some requests, one after the other.
func connectionsFor(t *testing.T, config *rest.Config, requests int) (made int) {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	for range requests {
		trace := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
			if !got.Reused {
				made++
			}
		}})
		r, err := http.NewRequestWithContext(trace, http.MethodGet, config.Host+"/version", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		if answer.ProtoMajor != 2 {
			t.Fatalf("answered with %s", answer.Proto)
		}
	}
	return made
}

func TestUnauthenticatedClientsNeedAConnectionForEachRequest(t *testing.T) {
	c := start(t, millrace.Options{})
	known := c.Config()
	stranger := rest.AnonymousClientConfig(known)
	if n := connectionsFor(t, stranger, 5); n != 5 {
		t.Errorf("a client without credentials needed %d connections", n)
	}
	if n := connectionsFor(t, known, 5); n != 1 {
		t.Errorf("an authenticated client needed %d connections", n)
	}
}
