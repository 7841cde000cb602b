package journal

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace/internal/cputime"
	"github.com/millrace/millrace/internal/server/store"
)

// BenchmarkPast measures what the past costs: 10,000 pods of 6 KB, made alike but for 400 bytes, and then a million
// changes of their statuses, of 100 bytes each. Run it once. Times of writes are of the processor.
func BenchmarkPast(b *testing.B) {
	for _, history := range []History{{}, {Age: math.MaxInt64, Bytes: math.MaxInt64}} {
		b.Run(fmt.Sprint("kept=", history.kept()), func(b *testing.B) {
			for b.Loop() {
				measurePast(b, history)
			}
		})
	}
}

const (
	pastPods    = 10_000
	pastChanges = 1_000_000
)

func measurePast(b *testing.B, history History) {
	s, err := Open(Options{Dir: b.TempDir(), History: history})
	if err != nil {
		b.Fatal(err)
	}
	start := cputime.Process()
	changePods(b, s)
	b.ReportMetric(float64((cputime.Process()-start).Microseconds())/pastChanges, "µs/change")
	if !history.kept() {
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		return
	}
	var bytes, changes int64
	for _, a := range s.past.archives {
		bytes, changes = bytes+a.size, int64(a.last-1)
	}
	b.ReportMetric(float64(bytes)/float64(changes), "archivedB/change")
	timed := func(unit string, what func(rev store.Revision)) {
		random := rand.New(rand.NewPCG(1, 1))
		const times = 10
		start := b.Elapsed()
		for range times {
			what(store.Revision(pastPods + random.Int64N(pastChanges)))
		}
		b.ReportMetric(float64((b.Elapsed()-start).Milliseconds())/times, unit)
	}
	timed("ms/list", func(rev store.Revision) {
		page, err := s.List(b.Context(), "/registry/pods/", store.ListOptions{Revision: rev})
		if err != nil || len(page.Entries) != pastPods {
			b.Fatal(len(page.Entries), err)
		}
	})
	timed("ms/page", func(rev store.Revision) {
		page, err := s.List(b.Context(), "/registry/pods/", store.ListOptions{Revision: rev, Limit: 500})
		if err != nil || len(page.Entries) != 500 {
			b.Fatal(len(page.Entries), err)
		}
	})
	timed("ms/history", func(rev store.Revision) {
		all, err := s.Changes(b.Context(), store.ChangeQuery{Key: podKey(int64(rev)%pastPods + 1), Limit: 20})
		if err != nil || len(all) != 20 {
			b.Fatal(len(all), err)
		}
	})
	timed("ms/why", func(rev store.Revision) { // six steps back: a change, and the version before it
		for range 6 {
			next, err := s.Next(b.Context(), rev-1, 1)
			if err != nil || len(next) != 1 || next[0].Revision != rev {
				b.Fatal(len(next), err)
			}
			if _, err := s.Changes(b.Context(), store.ChangeQuery{Key: next[0].Key, Until: rev - 1, Limit: 1}); err != nil {
				b.Fatal(err)
			}
			rev -= 1000
		}
	})
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

// changePods makes the pods, and changes each of them a hundred times.
func changePods(b *testing.B, s *Store) {
	template := noiseOf(rand.New(rand.NewPCG(1, 1)), make([]byte, 6000))
	var n atomic.Int64
	var writers sync.WaitGroup
	const each = 64
	for w := range int64(each) {
		writers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 3))
			values, revs := map[int64][]byte{}, map[int64]store.Revision{}
			for round := 0; n.Load() < pastChanges; round++ {
				for i := w + 1; i <= pastPods; i += each {
					var err error
					value := values[i]
					if value == nil {
						value = append([]byte(nil), template...)
						noiseOf(random, value[1000:1400])
						values[i] = value
						revs[i], err = s.Create(b.Context(), podKey(i), value, 0)
					} else {
						n.Add(1)
						noiseOf(random, value[5000:5100])
						revs[i], err = s.Update(b.Context(), podKey(i), value, revs[i], 0)
					}
					if err != nil {
						b.Error(err)
						return
					}
				}
			}
		})
	}
	writers.Wait()
}
