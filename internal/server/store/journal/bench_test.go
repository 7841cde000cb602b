package journal

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace/internal/cputime"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/storetest"
)

func BenchmarkStore(b *testing.B) {
	storetest.Bench(b, func(b *testing.B) store.Store {
		s, err := Open(Options{Dir: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		return s
	})
}

// BenchmarkPods measures the life of a store with 100,000 values of 6 KB, made by 64 writers. Run it once. Times are of
// the processor.
func BenchmarkPods(b *testing.B) {
	for _, alike := range []bool{true, false} {
		b.Run(fmt.Sprint("alike=", alike), func(b *testing.B) {
			for b.Loop() {
				measurePods(b, alike)
			}
		})
	}
}

const benchPods = 100_000

func podKey(i int64) string { return fmt.Sprintf("/registry/pods/default/pod-%08d", i) }

func measurePods(b *testing.B, alike bool) {
	dir, before := b.TempDir(), heapBytes()
	open := func() *Store {
		s, err := Open(Options{Dir: dir})
		if err != nil {
			b.Fatal(err)
		}
		return s
	}
	s := open()
	report := func(per int, unit string, what func()) {
		start := cputime.Process()
		what()
		b.ReportMetric(float64((cputime.Process()-start).Microseconds())/float64(per), unit)
	}
	report(benchPods, "µs/create", func() { createPods(b, s, alike) })
	b.ReportMetric(float64(heapBytes()-before)/benchPods, "heapB/pod")
	size, _ := s.Size(b.Context())
	b.ReportMetric(float64(size)/benchPods, "diskB/pod")
	report(2000, "µs/get", func() {
		for i := range int64(2000) {
			if _, err := s.Get(b.Context(), podKey(1+i*49), store.GetOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	report(1000, "ms/open", func() { s = open() })
	report(1000, "ms/list", func() {
		page, err := s.List(b.Context(), "/", store.ListOptions{})
		if err != nil || len(page.Entries) != benchPods {
			b.Fatal(len(page.Entries), err)
		}
	})
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

func createPods(b *testing.B, s *Store, alike bool) {
	template := noiseOf(rand.New(rand.NewPCG(1, 1)), make([]byte, 6000))
	var n atomic.Int64
	var writers sync.WaitGroup
	for w := range uint64(64) {
		writers.Go(func() {
			random, value := rand.New(rand.NewPCG(w, 2)), append([]byte(nil), template...)
			for i := n.Add(1); i <= benchPods; i = n.Add(1) {
				if alike {
					copy(value[100:], podKey(i))
				} else {
					noiseOf(random, value)
				}
				if _, err := s.Create(b.Context(), podKey(i), value, 0); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
}

// noiseOf fills a value with letters that compress to the half.
func noiseOf(r *rand.Rand, value []byte) []byte {
	for i := 0; i < len(value); i += 16 {
		for k, x := i, r.Uint64(); k < min(i+16, len(value)); k, x = k+1, x>>4 {
			value[k] = 'a' + byte(x&15)
		}
	}
	return value
}

func heapBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
