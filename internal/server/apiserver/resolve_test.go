package apiserver_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/server/apiserver"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/builtin"
	"github.com/millrace/millrace/internal/server/store/memory"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// byToken authenticates clients with any bearer token: "master" as a master, others as users without permissions.
type byToken struct{}

func (byToken) Authenticate(r *http.Request) (auth.User, error) {
	switch token, ok := auth.Bearer(r); {
	case !ok:
		return auth.User{}, auth.ErrUnauthorized
	case token == "master":
		return auth.User{Name: "jane", Groups: []string{auth.Masters}}, nil
	}
	return auth.User{Name: "joe"}, nil
}

// stalled is a server whose definitions never come. It counts how often somebody waits for them.
func stalled(t *testing.T) (s *apiserver.Server, waits *int) {
	t.Helper()
	inner := memory.New(memory.Options{})
	cache := watchcache.New(inner, watchcache.Options{})
	tabs := resource.Define(resource.Description[*corev1.ConfigMap]{Group: "example.com", Version: "v1", Kind: "Tab", Resource: "tabs", Namespaced: true})
	tabs.Custom, tabs.Life = true, resource.NewLife()
	catalogue, err := resource.NewCatalogue(append(builtin.Kinds(), tabs)...)
	if err != nil {
		t.Fatal(err)
	}
	reg, err := registry.New(registry.Options{Store: inner, Cache: cache, Catalogue: catalogue})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cache.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		inner.Close()
	})
	if err := cache.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	waits = new(int)
	never := func(ctx context.Context) error {
		*waits++
		<-ctx.Done()
		return ctx.Err()
	}
	return apiserver.New(apiserver.Options{
		Registry: reg, Authenticate: byToken{}, Authorize: auth.MastersMay{}, CatchUp: never, Settle: never,
	}), waits
}

func TestRequestsWaitForDefinitionsBrieflyAndOnceTheyAreAuthorized(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, waits := stalled(t)
		for _, c := range []struct {
			method, path, token string
			code                int
			waits               bool
		}{
			{"GET", "/apis/example.com/v1/namespaces/default/tabs", "", 401, false},
			{"POST", "/apis/example.com/v1/namespaces/default/tabs", "", 401, false},
			{"GET", "/apis/unknown.example/v1/things", "", 401, false},
			{"GET", "/apis/example.com/v1/namespaces/default/tabs", "joe", 403, false},
			{"GET", "/apis/unknown.example/v1/things", "joe", 403, false},
			{"GET", "/apis", "joe", 403, false},
			{"GET", "/api/v1/namespaces/default/configmaps", "master", 200, false},
			{"GET", "/apis/example.com/v1/namespaces/default/tabs", "master", 200, true},
			{"GET", "/apis/example.com/v1/namespaces/default/tabs/a", "master", 404, true},
			{"DELETE", "/apis/example.com/v1/namespaces/default/tabs/a", "master", 503, true},
			{"POST", "/apis/example.com/v1/namespaces/default/tabs", "master", 503, true},
			{"GET", "/apis/unknown.example/v1/things", "master", 503, true},
			{"GET", "/apis/unknown.example/v1/things?watch=1", "master", 503, true},
			{"GET", "/apis", "master", 200, true},
		} {
			*waits = 0
			began := time.Now()
			r := httptest.NewRequestWithContext(t.Context(), c.method, c.path, nil)
			if c.token != "" {
				r.Header.Set("Authorization", "Bearer "+c.token)
			}
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			took := time.Since(began)
			if w.Code != c.code || (*waits > 0) != c.waits || took > 4*time.Second || !c.waits && took > 0 {
				t.Errorf("%s %s by %q: %d after %v and %d waits: %s", c.method, c.path, c.token, w.Code, took, *waits, w.Body)
			}
			if c.code == 503 && w.Header().Get("Retry-After") == "" {
				t.Errorf("%s %s: the answer does not say when to try again", c.method, c.path)
			}
		}
	})
}
