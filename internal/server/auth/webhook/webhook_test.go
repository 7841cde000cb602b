package webhook

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/review"
	"github.com/millrace/millrace/internal/server/auth"
)

// serve answers reviews, and returns the kubeconfig that names it.
func serve(t testing.TB, calls *atomic.Int32, answer func(review map[string]any) map[string]any) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		var review map[string]any
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		status := answer(review)
		if status == nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		review["status"] = status
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "config")
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: '" + server.URL + "'}}]\ncontexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// hasty is a client that hardly waits between its tries.
func hasty(t *testing.T, path string) *review.Client {
	t.Helper()
	c, err := review.New(review.Options{ConfigFile: path, Backoff: time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTokensAreAskedForOnceAndForTheirAudiences(t *testing.T) {
	var calls atomic.Int32
	path := serve(t, &calls, func(review map[string]any) map[string]any {
		spec := review["spec"].(map[string]any)
		if spec["token"] != "good" {
			return map[string]any{"authenticated": false}
		}
		return map[string]any{"authenticated": true, "user": map[string]any{"username": "alice", "groups": []string{"dev"}}, "audiences": []string{"api", "vault"}}
	})
	tokens, err := NewTokens(TokenOptions{ConfigFile: path, Audiences: []string{"api"}})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		h, err := tokens.Holder(t.Context(), "good", nil)
		if err != nil || h.User.Name != "alice" || !slices.Equal(h.User.Groups, []string{"dev"}) || !slices.Equal(h.Audiences, []string{"api"}) {
			t.Errorf("%+v, %v", h, err)
		}
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("the webhook was asked %d times", n)
	}
	if h, err := tokens.Holder(t.Context(), "good", []string{"vault"}); err != nil || !slices.Equal(h.Audiences, []string{"vault"}) {
		t.Errorf("%+v, %v", h, err)
	}
	for _, c := range [][]string{{"bad"}, {"good", "elsewhere"}} {
		if h, err := tokens.Holder(t.Context(), c[0], c[1:]); !errors.Is(err, auth.ErrUnknownToken) {
			t.Errorf("%v: %+v, %v", c, h, err)
		}
	}
}

func TestAWebhookThatIsDownIsNoRefusalOfATokenAndNoOpinion(t *testing.T) {
	var calls atomic.Int32
	path := serve(t, &calls, func(map[string]any) map[string]any { return nil })
	tokens, err := NewTokens(TokenOptions{ConfigFile: path})
	if err != nil {
		t.Fatal(err)
	}
	tokens.client = hasty(t, path)
	if _, err := tokens.Holder(t.Context(), "good", nil); err == nil || errors.Is(err, auth.ErrUnauthorized) || errors.Is(err, auth.ErrUnknownToken) {
		t.Errorf("%v", err)
	}
	if n := calls.Load(); n != 5 {
		t.Errorf("%d tries", n)
	}
	for _, deny := range []bool{false, true} {
		a, err := NewAuthorizer(AuthorizerOptions{ConfigFile: path, DenyOnError: deny})
		if err != nil {
			t.Fatal(err)
		}
		a.client = hasty(t, path)
		v := a.Authorize(t.Context(), auth.Attributes{User: auth.User{Name: "alice"}, Verb: "get", Path: "/x"})
		if (v.Decision == auth.Deny) != deny || v.Err == nil {
			t.Errorf("%+v", v)
		}
	}
}

func TestDecisionsOfAWebhookAreKept(t *testing.T) {
	for _, version := range []string{"v1", "v1beta1"} {
		var calls atomic.Int32
		path := serve(t, &calls, func(review map[string]any) map[string]any {
			spec := review["spec"].(map[string]any)
			groups := map[string]string{"v1": "groups", "v1beta1": "group"}[version]
			if review["apiVersion"] != "authorization.k8s.io/"+version || spec[groups].([]any)[0] != "dev" {
				t.Errorf("asked %v", review)
			}
			switch spec["resourceAttributes"].(map[string]any)["verb"] {
			case "get":
				return map[string]any{"allowed": true, "reason": "since"}
			case "delete":
				return map[string]any{"denied": true, "reason": "never"}
			case "both":
				return map[string]any{"allowed": true, "denied": true}
			}
			return map[string]any{"allowed": false}
		})
		a, err := NewAuthorizer(AuthorizerOptions{ConfigFile: path, Version: version})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			for verb, want := range map[string]auth.Decision{"get": auth.Allow, "delete": auth.Deny, "list": auth.NoOpinion, "both": auth.Deny} {
				v := a.Authorize(t.Context(), auth.Attributes{User: auth.User{Name: "alice", Groups: []string{"dev"}}, Verb: verb, IsResource: true, Resource: "pods"})
				if v.Decision != want {
					t.Errorf("%s: %+v", verb, v)
				}
			}
		}
		if n := calls.Load(); n != 4 {
			t.Errorf("the webhook was asked %d times", n)
		}
	}
}

func BenchmarkCachedToken(b *testing.B) {
	var calls atomic.Int32
	path := serve(b, &calls, func(map[string]any) map[string]any {
		return map[string]any{"authenticated": true, "user": map[string]any{"username": "alice"}}
	})
	tokens, err := NewTokens(TokenOptions{ConfigFile: path})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tokens.Holder(b.Context(), "good", nil); err != nil {
			b.Fatal(err)
		}
	}
}
