package fairness

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/builtin"
	"github.com/millrace/millrace/internal/server/store"
	memorystore "github.com/millrace/millrace/internal/server/store/memory"
	"github.com/millrace/millrace/internal/server/store/storetest"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// openRegistry returns the registry of a server on a store, and runs what else is given until the test ends.
func openRegistry(t *testing.T, s store.Store) (*registry.Registry, func(run func(context.Context) error)) {
	t.Helper()
	catalogue, err := resource.NewCatalogue(builtin.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	cache := watchcache.New(s, watchcache.Options{Root: registry.Root})
	r, err := registry.New(registry.Options{Store: s, Cache: cache, Catalogue: catalogue})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	start := func(run func(context.Context) error) { running.Go(func() { _ = run(ctx) }) }
	start(cache.Run)
	t.Cleanup(func() { cancel(); running.Wait() })
	if err := cache.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	return r, start
}

func TestRequestsKeepTheirLevelWhileTheLogIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memorystore.New(memorystore.Options{})
		defer inner.Close()
		log := storetest.NewLateLog(inner)
		r, start := openRegistry(t, log)
		other, _ := openRegistry(t, inner)
		create := func(of string, o resource.Object) {
			t.Helper()
			kind, _ := other.Catalogue.Kind(flowcontrolv1.Resource(of))
			s, err := other.Storage(kind)
			if err != nil {
				t.Fatal(err)
			}
			kind.Default(o)
			if _, err := s.Create(t.Context(), "", o, registry.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		d := New(Options{Registry: r})
		start(d.Run)
		create("prioritylevelconfigurations", priority("l", 10, 0, 4, 2, 10))
		create("flowschemas", schemaFor("first", "l", 100, "", "u"))
		belongs := func(want string) {
			t.Helper()
			synctest.Wait()
			if got := d.Classify(get("u")).schema.name; got != want {
				t.Errorf("a request belongs to %s, expected %s", got, want)
			}
		}
		belongs("first")
		release := log.Hold()
		create("flowschemas", schemaFor("second", "l", 50, "", "u"))
		belongs("first")
		release()
		belongs("second")
	})
}
