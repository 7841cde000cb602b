package watchcache

import (
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace/millrace/internal/server/store"
)

// BenchmarkStages measures the cache's work for one event of the log and for one request; package wire measures the
// rest.
func BenchmarkStages(b *testing.B) {
	c, k := benchCache(b, benchPods, Options{})
	w := newWrites(benchPods)
	batches := make([]store.Batch, 20_000)
	for i := range batches {
		batches[i] = w.batch(1)
	}
	event := batches[0].Events[0]
	object, _ := k.readObject(store.Entry{Key: event.Key, Value: event.Value, Revision: event.Revision})
	b.Run("apply", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			batch := batches[i%len(batches)]
			batch.Revision = c.Revision() + 1
			batch.Events[0].Revision = batch.Revision
			if err := c.apply(batch); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		h := newHistory(0, []int{0})
		var sleepers []chan struct{}
		for i := 0; b.Loop(); i++ {
			h.pushLocked(&Event{Type: Modified, Object: object, Previous: object, Revision: store.Revision(i + 1)}, &sleepers)
			h.trimLocked(10_000, 1<<30)
		}
	})
	b.Run("wake", func(b *testing.B) { // one sleeper; that it falls asleep again is included
		_, cur, err := k.WatchFromNow(All())
		if err != nil {
			b.Fatal(err)
		}
		defer cur.Close()
		woken := make(chan struct{})
		asleep := make(chan (<-chan struct{}))
		go func() {
			for wake := range asleep {
				<-wake
				woken <- struct{}{}
			}
		}()
		defer close(asleep)
		for b.Loop() {
			l := new(link)
			asleep <- l.wakeChannel()
			var sleepers []chan struct{}
			l.follow(endStopped, &sleepers)
			wakeAll(sleepers)
			<-woken
		}
	})
	b.Run("filter", func(b *testing.B) {
		selector := labels.SelectorFromSet(labels.Set{"tier": "front", "env": "prod"})
		for b.Loop() {
			if !selector.Matches(object.Labels) {
				b.Fatal("does not match")
			}
		}
	})
	b.Run("snapshot", func(b *testing.B) { // including what it costs the next change
		for i := 0; b.Loop(); i++ {
			k.Snapshot()
			k.mu.Lock()
			k.frozen = nil
			k.state.set(benchKey(i*7919%benchPods), object)
			k.mu.Unlock()
		}
	})
	b.Run("page", func(b *testing.B) {
		s := k.Snapshot()
		for b.Loop() {
			n := 0
			for range s.Range("/registry/pods/", benchKey(50_000)) {
				if n++; n == 500 {
					break
				}
			}
		}
	})
}
