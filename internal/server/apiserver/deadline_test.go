package apiserver_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/apiserver"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/builtin"
	"github.com/millrace/millrace/internal/server/store/memory"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// everyone authenticates every client as a member of system:masters.
type everyone struct{}

func (everyone) Authenticate(*http.Request) (auth.User, error) {
	return auth.User{Name: "jane", Groups: []string{auth.Masters}}, nil
}

// newServer returns an API server on a store in memory.
func newServer(t *testing.T, delegate apiserver.Delegate) *apiserver.Server {
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
	return apiserver.New(apiserver.Options{Registry: reg, Authenticate: everyone{}, Authorize: auth.MastersMay{}, Delegate: delegate})
}

// deadlineRecorder records the write deadline of an answer.
type deadlineRecorder struct {
	*httptest.ResponseRecorder
	by time.Time
}

func (d *deadlineRecorder) SetWriteDeadline(t time.Time) error {
	d.by = t
	return nil
}

// TestClientThatDoesNotReadOccupiesNoSeat requests answers in all formats; some of them are made as a whole before they
// are sent.
func TestClientThatDoesNotReadOccupiesNoSeat(t *testing.T) {
	s := newServer(t, nil)
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
	s := newServer(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	h := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder(), by: time.Now()}
	s.ServeHTTP(h, httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/configmaps?watch=1", nil))
	if h.Code != http.StatusOK || !h.by.IsZero() {
		t.Errorf("%d, to be taken by %v", h.Code, h.by)
	}
}

// elsewhere is another server, which serves one group version.
type elsewhere struct{ schema.GroupVersion }

func (e elsewhere) Handler(gv schema.GroupVersion) http.Handler {
	if gv != e.GroupVersion {
		return nil
	}
	return http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
}

func (e elsewhere) Groups() (int, []apiserver.DelegatedGroup) { return 0, nil }

// TestEveryAnswerButAStreamHasADeadlineOfItsOwn begins with the deadline that the previous request of an HTTP/1.1
// connection has left.
func TestEveryAnswerButAStreamHasADeadlineOfItsOwn(t *testing.T) {
	s := newServer(t, elsewhere{schema.GroupVersion{Group: "other.example", Version: "v1"}})
	for path, bounded := range map[string]bool{
		"/version": true, "/apis": true, "/api/v1/nothing": true, "/none": true, "/debug/pprof/cmdline": false,
		"/apis/other.example/v1": true, "/apis/other.example/v1/things": true, "/apis/other.example/v1/things?watch=1": false,
	} {
		before := time.Now()
		h := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder(), by: before}
		s.ServeHTTP(h, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if h.by.After(before) != bounded || h.by.IsZero() == bounded {
			t.Errorf("%s: to be taken by %v", path, h.by)
		}
	}
}
