package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
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

func TestManyInvalidTokensDoNotKeepOthersWaiting(t *testing.T) {
	var calls atomic.Int32
	slow := make(chan struct{})
	path := serve(t, &calls, func(review map[string]any) map[string]any {
		if token := review["spec"].(map[string]any)["token"]; token == "known" || token == "good" {
			return map[string]any{"authenticated": true, "user": map[string]any{"username": token}}
		}
		<-slow
		return map[string]any{"authenticated": false}
	})
	const most = 6
	tokens, err := NewTokens(TokenOptions{ConfigFile: path, Most: most})
	if err != nil {
		t.Fatal(err)
	}
	requests := &auth.Requests{Tokens: tokens}
	ask := func(token, from string) error {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		r.RemoteAddr = from + ":1234"
		_, err := requests.Authenticate(r)
		return err
	}
	if err := ask("known", "10.0.0.1"); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range most / 3 {
		all.Go(func() { _ = ask(fmt.Sprint("junk", i), "10.0.0.1") })
	}
	for calls.Load() < 1+most/3 {
		runtime.Gosched()
	}
	if err := ask("junk", "10.0.0.1"); !errors.Is(err, auth.ErrBusy) {
		t.Errorf("more questions of one address than it may have: %v", err)
	}
	for token, from := range map[string]string{"known": "10.0.0.1", "good": "10.0.0.2"} {
		if err := ask(token, from); err != nil {
			t.Errorf("the token %q from %s: %v", token, from, err)
		}
	}
	close(slow)
	all.Wait()
	if err := ask("good", "10.0.0.1"); err != nil || len(tokens.questions.askedBy) != 0 || tokens.questions.asked != 0 {
		t.Errorf("after all have been answered: %v, %+v", err, tokens.questions.askedBy)
	}
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
