package millrace_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/millrace/millrace"
)

// ask sends a request to a cluster as its administrator.
func ask(t *testing.T, c *millrace.Cluster, method, path, origin string) (answer *http.Response, body string) {
	t.Helper()
	transport, err := rest.TransportFor(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	q, err := http.NewRequestWithContext(t.Context(), method, c.Config().Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if origin != "" {
		q.Header.Set("Origin", origin)
	}
	if answer, err = transport.RoundTrip(q); err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(text)
}

func alone(s millrace.ServingOptions) millrace.Options {
	return millrace.Options{Controllers: []string{}, NoScheduler: true, Serving: s}
}

func TestBrowsersGetTheHeadersThatTheOptionsSay(t *testing.T) {
	h := millrace.HeaderOptions{StrictTransport: []string{"max-age=1", "preload"}, Origins: []*regexp.Regexp{regexp.MustCompile(`^https://good\.example$`)}}
	c := start(t, alone(millrace.ServingOptions{Headers: h}))
	for _, one := range []struct {
		method, origin string
		code           int
		allowed        bool
	}{
		{"GET", "https://good.example", http.StatusOK, true},
		{"OPTIONS", "https://good.example", http.StatusNoContent, true},
		{"GET", "https://bad.example", http.StatusOK, false},
		{"OPTIONS", "https://bad.example", http.StatusMethodNotAllowed, false},
		{"GET", "", http.StatusOK, false},
	} {
		got, _ := ask(t, c, one.method, "/version", one.origin)
		if allowed := got.Header.Get("Access-Control-Allow-Origin") == one.origin && one.origin != ""; got.StatusCode != one.code || allowed != one.allowed {
			t.Errorf("%s from %q: %v", one.method, one.origin, got)
		}
		if credentials := got.Header.Get("Access-Control-Allow-Credentials") == "true"; credentials != one.allowed {
			t.Errorf("%s from %q may send credentials: %v", one.method, one.origin, credentials)
		}
		if got.Header.Get("Strict-Transport-Security") != "max-age=1; preload" {
			t.Errorf("%v", got.Header)
		}
	}
}

func TestClientsAreToldToConnectAgain(t *testing.T) {
	for chance, want := range map[float64]int{0: 1, 1: 3} {
		c := start(t, alone(millrace.ServingOptions{Headers: millrace.HeaderOptions{GoAwayChance: chance}}))
		transport, err := rest.TransportFor(c.Config())
		if err != nil {
			t.Fatal(err)
		}
		connections := map[string]bool{}
		traced := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { connections[i.Conn.LocalAddr().String()] = true }})
		for range 3 {
			q, err := http.NewRequestWithContext(traced, http.MethodGet, c.URL()+"/version", nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := transport.RoundTrip(q)
			if err != nil || got.ProtoMajor != 2 {
				t.Fatalf("%v, %v", got, err)
			}
			if _, err := io.ReadAll(got.Body); err != nil {
				t.Fatal(err)
			}
			got.Body.Close()
		}
		if len(connections) != want {
			t.Errorf("three requests with a chance of %v took the connections %v", chance, connections)
		}
	}
}

func TestProfilesCanBeLeftOut(t *testing.T) {
	for off, code := range map[bool]int{false: http.StatusOK, true: http.StatusNotFound} {
		got, _ := ask(t, start(t, alone(millrace.ServingOptions{NoProfiling: off})), "GET", "/debug/pprof/", "")
		if got.StatusCode != code {
			t.Errorf("without profiles: %v, and they are answered with %d", off, got.StatusCode)
		}
	}
}

func TestDocumentsNameTheExternalHost(t *testing.T) {
	c := start(t, alone(millrace.ServingOptions{ExternalHostname: "api.example"}))
	for path, want := range map[string]string{"/api": `"serverAddress":"api.example:`, "/.well-known/openid-configuration": `"jwks_uri":"https://api.example:`} {
		if _, text := ask(t, c, "GET", path, ""); !strings.Contains(strings.ReplaceAll(text, `": "`, `":"`), want) {
			t.Errorf("%s: %s", path, text)
		}
	}
}

func TestAServerThatIsAboutToEndServesAndIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := alone(millrace.ServingOptions{ShutdownDelay: 7 * time.Second})
		o.Listen = "none"
		var log bytes.Buffer // slog locks it, and it is read when all has ended
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		c, err := millrace.Start(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if got, text := ask(t, c, "GET", "/readyz?verbose", ""); got.StatusCode != http.StatusOK || !strings.Contains(text, "[+]shutdown ok") {
			t.Errorf("before: %s", text)
		}
		began := time.Now()
		closed := make(chan error)
		go func() { closed <- c.Close() }()
		time.Sleep(5 * time.Second)
		for path, code := range map[string]int{"/readyz": http.StatusInternalServerError, "/healthz": http.StatusOK, "/livez": http.StatusOK, "/version": http.StatusOK} {
			if got, text := ask(t, c, "GET", path, ""); got.StatusCode != code {
				t.Errorf("%s: %d, %s", path, got.StatusCode, text)
			}
		}
		if err := <-closed; err != nil || time.Since(began) != 7*time.Second {
			t.Errorf("it ended after %v: %v", time.Since(began), err)
		}
		if said := log.String(); strings.Count(said, "the server is about to end") != 1 || strings.Contains(said, "health check failed") {
			t.Errorf("it logs %s", said)
		}
	})
}

// A client may give its request less time than the server would, but not more.
func TestTheTimeOfARequest(t *testing.T) {
	c := start(t, alone(millrace.ServingOptions{}))
	for query, want := range map[string]int{"timeout=3m": 200, "timeout=0s": 200, "timeout=": 200, "timeout=1ns": 504, "timeout=invalid": 400, "timeout=5": 400} {
		got, text := ask(t, c, "GET", "/api/v1/namespaces?resourceVersion=&"+query, "")
		if got.StatusCode != want {
			t.Errorf("%s: %d, %s", query, got.StatusCode, text)
		}
		if want == http.StatusBadRequest && !strings.Contains(text, "invalid timeout specified in the request URL - time: ") {
			t.Errorf("%s: %s", query, text)
		}
	}
}

func TestHealthChecksHaveKubernetesNames(t *testing.T) {
	c := start(t, alone(millrace.ServingOptions{}))
	for path, want := range map[string]string{
		"/healthz?verbose":                         "[+]poststarthook/rbac/bootstrap-roles ok",
		"/livez?verbose":                           "[+]autoregister-completion ok",
		"/readyz?verbose":                          "[+]informer-sync ok",
		"/readyz/etcd":                             "ok",
		"/readyz?verbose&exclude=etcd":             "[+]etcd excluded: ok",
		"/readyz?verbose&exclude=a&exclude=b":      `warn: some health checks cannot be excluded: no matches for "a","b"`,
		"/livez/poststarthook/crd-informer-synced": "ok",
	} {
		if got, text := ask(t, c, "GET", path, ""); got.StatusCode != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: %d, %s", path, got.StatusCode, text)
		}
	}
	if got, _ := ask(t, c, "GET", "/readyz/nonsense", ""); got.StatusCode != http.StatusNotFound {
		t.Errorf("a check that does not exist: %d", got.StatusCode)
	}
}
