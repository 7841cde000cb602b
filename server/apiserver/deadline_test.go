package apiserver_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/server/apiserver"
	"github.com/millrace/millrace/server/auth"
	"github.com/millrace/millrace/server/registry"
	"github.com/millrace/millrace/server/resource"
	"github.com/millrace/millrace/server/resource/builtin"
	"github.com/millrace/millrace/server/store/memory"
	"github.com/millrace/millrace/server/watchcache"
)

// everyone authenticates every client as a member of system:masters.
type everyone struct{}

func (everyone) Authenticate(*http.Request) (auth.User, error) {
	return auth.User{Name: "jane", Groups: []string{auth.Masters}}, nil
}

// newServer returns an API server on a store in memory.
func newServer(t *testing.T) *apiserver.Server {
	t.Helper()
	s := memory.New(memory.Options{})
	cache := watchcache.New(s, watchcache.Options{})
	catalogue, err := resource.NewCatalogue(builtin.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	reg, err := registry.New(registry.Options{Store: s, Cache: cache, Catalogue: catalogue})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = cache.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		s.Close()
	})
	if err := cache.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	return apiserver.New(apiserver.Options{Registry: reg, Authenticate: everyone{}, Authorize: auth.MastersMay{}})
}

// deadlineRecorder records the write deadline of an answer.
type deadlineRecorder struct {
	*httptest.ResponseRecorder
	by time.Time
}

func (h *deadlineRecorder) SetWriteDeadline(t time.Time) error {
	h.by = t
	return nil
}

// TestClientThatDoesNotReadOccupiesNoSeat requests answers in all formats; some of them are made as a whole before they are sent.
func TestClientThatDoesNotReadOccupiesNoSeat(t *testing.T) {
	s := newServer(t)
	for _, accept := range []string{"application/json", "application/yaml", "application/json;as=Table;v=v1;g=meta.k8s.io", "application/vnd.kubernetes.protobuf"} {
		for _, path := range []string{"/api/v1/configmaps", "/api/v1/configmaps?pretty=1", "/apis/autoscaling/v1/horizontalpodautoscalers"} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
			r.Header.Set("Accept", accept)
			h := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
			s.ServeHTTP(h, r)
			if h.Code != http.StatusOK || time.Until(h.by) <= 0 || time.Until(h.by) > 2*time.Minute {
				t.Errorf("%s as %s: %d, to be taken by %v", path, accept, h.Code, h.by)
			}
		}
	}
}

func TestWatchDoesNotKeepTheDeadlineOfThePreviousRequest(t *testing.T) {
	s := newServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	h := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder(), by: time.Now()}
	s.ServeHTTP(h, httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/configmaps?watch=1", nil))
	if h.Code != http.StatusOK || !h.by.IsZero() {
		t.Errorf("%d, to be taken by %v", h.Code, h.by)
	}
}
