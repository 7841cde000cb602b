package clients_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/server/apiserver"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/ownership"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/builtin"
	"github.com/millrace/millrace/internal/server/store/faults"
	"github.com/millrace/millrace/internal/server/store/memory"
	"github.com/millrace/millrace/internal/server/watchcache"
	"github.com/millrace/millrace/proof/internal/network"
)

// house is an API server with a store that fails on request.
type house struct {
	faults *faults.Store
	cache  *watchcache.Cache
	api    *apiserver.Server
	server *httptest.Server
	config *rest.Config
}

func newHouse(t testing.TB, o watchcache.Options, uncached map[string]bool, change func(*apiserver.Options)) *house {
	t.Helper()
	h := &house{faults: faults.Wrap(memory.New(memory.Options{}))}
	o.Root, o.Backoff = registry.Root, func(int) time.Duration { return time.Millisecond }
	h.cache = watchcache.New(h.faults, o)
	catalogue := must(resource.NewCatalogue(builtin.Kinds()...))(t)
	track := &ownership.Owners{}
	reg := must(registry.New(registry.Options{Store: h.faults, Cache: h.cache, Catalogue: catalogue, Track: track, Uncached: uncached}))(t)
	options := apiserver.Options{Registry: reg, Authenticate: auth.Trusted{}, Authorize: auth.MastersMay{}, Apply: track,
		BookmarkPeriod: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&options)
	}
	h.api = apiserver.New(options)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = h.cache.Run(ctx) })
	h.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.api.ServeHTTP(w, r.WithContext(auth.WithUser(r.Context(), auth.User{Name: "root", Groups: []string{auth.Masters}})))
	}))
	h.server.EnableHTTP2 = true
	h.server.StartTLS()
	h.config = &rest.Config{Host: h.server.URL, QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, WrapTransport: network.WithoutRetryAfter}
	t.Cleanup(func() {
		h.api.End()
		h.server.CloseClientConnections()
		h.server.Close()
		cancel()
		running.Wait()
		if err := h.faults.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := h.cache.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *house) client(t testing.TB) corev1client.ConfigMapInterface {
	return must(kubernetes.NewForConfig(h.config))(t).CoreV1().ConfigMaps("default")
}

func TestAnExpiredPageComesWithATokenToGoOn(t *testing.T) {
	for _, uncached := range []map[string]bool{nil, {"configmaps": true}} {
		h := newHouse(t, watchcache.Options{WindowEvents: 64}, uncached, nil)
		client := h.client(t)
		for i := range 10 {
			must(client.Create(t.Context(), configMap(fmt.Sprintf("c%02d", i), nil), metav1.CreateOptions{}))(t)
		}
		page := must(client.List(t.Context(), metav1.ListOptions{Limit: 4}))(t)
		for range 100 {
			o := must(client.Get(t.Context(), "c09", metav1.GetOptions{}))(t)
			o.Data["k"] += "."
			must(client.Update(t.Context(), o, metav1.UpdateOptions{}))(t)
		}
		if err := h.faults.Compact(t.Context(), must(h.faults.Revision(t.Context()))(t)); err != nil {
			t.Fatal(err)
		}
		_, err := client.List(t.Context(), metav1.ListOptions{Limit: 4, Continue: page.Continue})
		var status apierrors.APIStatus
		if !apierrors.IsResourceExpired(err) || !errors.As(err, &status) || status.Status().Continue == "" {
			t.Fatalf("uncached %v: %v", uncached, err)
		}
		rest := must(client.List(t.Context(), metav1.ListOptions{Limit: 10, Continue: status.Status().Continue}))(t)
		if len(rest.Items) != 6 || rest.Items[0].Name != "c04" || !strings.HasSuffix(rest.Items[5].Data["k"], ".") {
			t.Errorf("the rest has %d items", len(rest.Items))
		}
	}
}
