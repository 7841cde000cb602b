package loop_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/loop"
)

// accountServer answers like an API server with service accounts. Everything else is answered with the request's
// credentials.
type accountServer struct {
	mu       sync.Mutex // guards what follows
	accounts map[string]bool
	issued   int
	refused  string // this token is refused
}

func (s *accountServer) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := func(status int, text string) (*http.Response, error) {
		return &http.Response{StatusCode: status, Request: r, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(text))}, nil
	}
	credentials := r.Header.Get("Authorization")
	name, isToken := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/kube-system/serviceaccounts/"), "/token")
	switch {
	case r.Method == http.MethodGet && credentials == "Bearer "+s.refused:
		return answer(http.StatusUnauthorized, "")
	case r.Method == http.MethodGet:
		return answer(http.StatusOK, credentials)
	case credentials != "Bearer own":
		return answer(http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","code":403}`)
	case !isToken:
		s.accounts["account-of-a"] = true
		return answer(http.StatusCreated, `{"kind":"ServiceAccount","apiVersion":"v1"}`)
	case !s.accounts[name]:
		return answer(http.StatusNotFound, `{"kind":"Status","apiVersion":"v1","reason":"NotFound","code":404}`)
	}
	s.issued++
	return answer(http.StatusCreated, fmt.Sprintf(`{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","status":{"token":"%s-%d"}}`, name, s.issued))
}

func TestEachLoopUsesAServiceAccountOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &accountServer{accounts: map[string]bool{"account-of-b": true}}
		config := &rest.Config{Host: "http://server", BearerToken: "own", Transport: server}
		err := loop.UseAccounts(config, "kube-system", func(loop string) string {
			if loop == "c" {
				return ""
			}
			return "account-of-" + loop
		})
		if err != nil {
			t.Fatal(err)
		}
		transport, err := rest.TransportFor(config)
		if err != nil {
			t.Fatal(err)
		}
		// ask returns the credentials with which a loop asks.
		ask := func(name string) string {
			t.Helper()
			ctx := t.Context()
			if name != "" {
				ctx = loop.WithName(ctx, name)
			}
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://server/version", nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := transport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			text, err := io.ReadAll(answer.Body)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		want := func(when, name, credentials string) {
			t.Helper()
			if got := ask(name); got != credentials {
				t.Errorf("%s the loop %q asks as %q, want %q", when, name, got, credentials)
			}
		}
		want("without a name", "", "Bearer own")
		want("without an account", "c", "Bearer own")
		want("with an account that has to be made,", "a", "Bearer account-of-a-1")
		want("with an account", "b", "Bearer account-of-b-2")
		want("the second time", "a", "Bearer account-of-a-1")
		time.Sleep(50 * time.Minute)
		want("when the token nears its end,", "a", "Bearer account-of-a-3")
		server.refused = "account-of-a-3"
		ask("a")
		want("after the token was refused,", "a", "Bearer account-of-a-4")
	})
}

func TestEachLoopHasARateLimitOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := &rest.Config{Host: "http://server", Transport: &accountServer{}}
		var waited time.Duration
		loop.LimitRequests(config, 10, 3, func(_ string, took time.Duration) { waited += took })
		transport, err := rest.TransportFor(config)
		if err != nil {
			t.Fatal(err)
		}
		send := func(ctx context.Context, requests int) time.Duration {
			began := time.Now()
			for range requests {
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://server/version", nil)
				if err != nil {
					t.Fatal(err)
				}
				answer, err := transport.RoundTrip(r)
				if err != nil {
					t.Fatal(err)
				}
				answer.Body.Close()
			}
			return time.Since(began)
		}
		if took := send(loop.WithName(t.Context(), "a"), 13); took != time.Second || waited != time.Second {
			t.Errorf("13 requests took %v, of which they waited %v", took, waited)
		}
		if took := send(loop.WithName(t.Context(), "b"), 3); took != 0 {
			t.Errorf("the requests of another loop waited %v", took)
		}
		if took := send(t.Context(), 4); took != 100*time.Millisecond {
			t.Errorf("4 requests without a loop took %v", took)
		}
	})
}
