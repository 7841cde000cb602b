package registry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/builtin"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/memory"
	"github.com/millrace/millrace/internal/server/store/storetest"
	"github.com/millrace/millrace/internal/server/watchcache"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// world is a registry of all kinds on a store in memory.
type world struct {
	t     *testing.T
	inner *storetest.Restorable
	store *watched
	cache *watchcache.Cache
	maps  *Storage // of config maps
}

// watched is a store that records which pages are read, and whose log can be held.
type watched struct {
	*storetest.LateLog
	largest atomic.Int64 // the largest page that was listed
	pages   atomic.Int64
}

func (w *watched) List(ctx context.Context, prefix string, o store.ListOptions) (store.Page, error) {
	page, err := w.LateLog.List(ctx, prefix, o)
	w.pages.Add(1)
	w.largest.Store(max(w.largest.Load(), int64(len(page.Entries))))
	return page, err
}

// lock is a Transformer that cannot read values that begin with "broken".
type lock struct{}

var errNoKey = errors.New("no key fits")

func (lock) To(_ string, value []byte) ([]byte, error) { return value, nil }
func (lock) From(_ string, value []byte) ([]byte, bool, error) {
	if len(value) > 6 && string(value[:6]) == "broken" {
		return nil, false, errNoKey
	}
	return value, false, nil
}

func newWorld(t *testing.T, window int, uncached ...string) *world {
	t.Helper()
	inner := memory.New(memory.Options{})
	t.Cleanup(func() { inner.Close() })
	return openWorld(t, inner, window, uncached...)
}

// again opens another registry on the same store.
func (w *world) again() *world { return openWorld(w.t, w.inner, 0) }

func openWorld(t *testing.T, inner store.Store, window int, uncached ...string) *world {
	t.Helper()
	w := &world{t: t, inner: storetest.NewRestorable(inner)}
	w.store = &watched{LateLog: storetest.NewLateLog(store.Transform(w.inner, lock{}))}
	w.cache = watchcache.New(w.store, watchcache.Options{WindowEvents: window})
	catalogue, err := resource.NewCatalogue(builtin.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Store: w.store, Cache: w.cache, Catalogue: catalogue, Uncached: map[string]bool{}}
	for _, name := range uncached {
		o.Uncached[name] = true
	}
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	face, _ := catalogue.Face(corev1.SchemeGroupVersion.WithResource("configmaps"))
	if w.maps, err = r.Storage(face.Of); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = w.cache.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	if err := w.cache.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	return w
}

// create creates config maps a-0000, a-0001 and so on.
func (w *world) create(n int) {
	w.t.Helper()
	for i := range n {
		w.add(fmt.Sprintf("a-%04d", i))
	}
}

// add creates one config map.
func (w *world) add(name string) {
	w.t.Helper()
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if _, err := w.maps.Create(w.t.Context(), "default", o, WriteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// list reads a page of the config maps of the namespace.
func (w *world) list(q ListQuery) *List {
	w.t.Helper()
	q.Namespace = "default"
	list, err := w.maps.List(w.t.Context(), q)
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}
