// Package registrytest opens registries for tests.
package registrytest

import (
	"context"
	"sync"
	"testing"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/builtin"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// Open returns a registry of all built-in kinds, whose cache follows a store until the test ends. Several on one store
// are as many servers. The store stays open.
func Open(t testing.TB, s store.Store) *registry.Registry {
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
	running.Go(func() { _ = cache.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	if err := cache.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	return r
}
