package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace/internal/server/store"
)

// Bench measures the calls of a store, one at a time and from many callers.
func Bench(b *testing.B, open func(b *testing.B) store.Store) {
	for _, bench := range []struct {
		name string
		run  func(b *testing.B, s store.Store)
	}{
		{"Create", benchCreate},
		{"CreateBy64", benchCreateBy64},
		{"UpdateBy64", benchUpdateBy64},
		{"Get", benchGet},
		{"GetBy64", benchGetBy64},
		{"List10000", benchList},
		{"Revision", benchRevision},
		{"RevisionBy64", benchRevisionBy64},
		{"WatchWhileCreatingBy64", benchWatch},
		{"WatchLatency", benchWatchLatency},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s := open(b)
			defer s.Close()
			bench.run(b, s)
		})
	}
}

// podBytes is about as long as a small pod in protobuf.
var podBytes = bytes.Repeat([]byte("0123456789abcdef"), 64)

func benchCreate(b *testing.B, s store.Store) {
	n := 0
	for b.Loop() {
		n++
		must(b, create(b.Context(), s, n))
	}
}

func benchCreateBy64(b *testing.B, s store.Store) {
	var n atomic.Int64
	by64(b, func(ctx context.Context) error { return create(ctx, s, int(n.Add(1))) })
}

func benchUpdateBy64(b *testing.B, s store.Store) {
	var id atomic.Int64
	b.SetParallelism(32)
	b.RunParallel(func(p *testing.PB) {
		key := fmt.Sprintf("/registry/leases/%d", id.Add(1))
		rev, err := s.Create(b.Context(), key, podBytes, 0)
		for err == nil && p.Next() {
			rev, err = s.Update(b.Context(), key, podBytes, rev, 0)
		}
		must(b, err)
	})
}

func benchGet(b *testing.B, s store.Store) {
	fill(b, s, 1000)
	n := 0
	for b.Loop() {
		n++
		_, err := s.Get(b.Context(), key(n%1000), store.GetOptions{})
		must(b, err)
	}
}

func benchGetBy64(b *testing.B, s store.Store) {
	fill(b, s, 1000)
	by64(b, func(ctx context.Context) error {
		_, err := s.Get(ctx, key(500), store.GetOptions{})
		return err
	})
}

func benchList(b *testing.B, s store.Store) {
	fill(b, s, 10_000)
	for b.Loop() {
		page, err := s.List(b.Context(), "/registry/", store.ListOptions{})
		must(b, err)
		if len(page.Entries) != 10_000 {
			b.Fatal(len(page.Entries))
		}
	}
}

func benchRevision(b *testing.B, s store.Store) {
	fill(b, s, 1)
	for b.Loop() {
		_, err := s.Revision(b.Context())
		must(b, err)
	}
}

func benchRevisionBy64(b *testing.B, s store.Store) {
	fill(b, s, 1)
	by64(b, func(ctx context.Context) error { _, err := s.Revision(ctx); return err })
}

// benchWatch measures what writers and one watch achieve together, until the last event is delivered.
func benchWatch(b *testing.B, s store.Store) {
	var wg sync.WaitGroup
	placed, enough := make(chan struct{}), errors.New("enough")
	var once sync.Once
	seen := 0
	wg.Go(func() {
		err := s.Watch(b.Context(), "/registry/", 0, func(batch store.Batch) error {
			once.Do(func() { close(placed) })
			if seen += len(batch.Events); seen == b.N {
				return enough
			}
			return nil
		})
		if err != enough {
			b.Error(err)
		}
	})
	<-placed
	benchCreateBy64(b, s)
	wg.Wait()
}

// benchWatchLatency measures the time from the call of a write to its event.
func benchWatchLatency(b *testing.B, s store.Store) {
	ctx, cancel := context.WithCancel(b.Context())
	events, placed := make(chan store.Event), make(chan struct{})
	var once sync.Once
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = s.Watch(ctx, "/registry/", 0, func(batch store.Batch) error {
			once.Do(func() { close(placed) })
			for _, e := range batch.Events {
				events <- e
			}
			return nil
		})
	})
	<-placed
	n := 0
	for b.Loop() {
		n++
		must(b, create(ctx, s, n))
		<-events
	}
	cancel()
	wg.Wait()
}

func by64(b *testing.B, call func(context.Context) error) {
	b.SetParallelism(32) // times two processors or more
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			must(b, call(b.Context()))
		}
	})
}

func key(n int) string { return fmt.Sprintf("/registry/pods/default/pod-%08d", n) }

func create(ctx context.Context, s store.Store, n int) error {
	_, err := s.Create(ctx, key(n), podBytes, 0)
	return err
}

func fill(b *testing.B, s store.Store, n int) {
	var wg sync.WaitGroup
	for part := range 64 {
		wg.Go(func() {
			for i := part; i < n; i += 64 {
				must(b, create(b.Context(), s, i))
			}
		})
	}
	wg.Wait()
}

func must(b *testing.B, err error) {
	if err != nil {
		b.Error(err)
	}
}
