package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/millrace/millrace/internal/server/store"
)

var watchChecks = []check{
	{"a watch from the past gets everything after its start", func(t *testing.T, s store.Store) {
		log := someHistory(t, s)
		for i := range log {
			got := watch(t, s, "/", log[i].Revision).upTo(log[len(log)-1].Revision)
			equalEvents(t, got, log[i+1:])
		}
	}},
	{"a watch from now gets the later changes", func(t *testing.T, s store.Store) {
		someHistory(t, s)
		w := watch(t, s, "/", 0).started()
		log := someHistory(t, s)
		equalEvents(t, w.upTo(log[len(log)-1].Revision), log)
		w.end()
	}},
	{"many writers' changes come to many watchers, each once and in order", func(t *testing.T, s store.Store) {
		start := mustRevision(t, s)
		var watchers []*watching
		for range 4 {
			watchers = append(watchers, watch(t, s, "/", start))
		}
		log := concurrentHistory(t, s, 8, 50)
		watchers = append(watchers, watch(t, s, "/", start))
		for _, w := range watchers {
			equalEvents(t, w.upTo(log[len(log)-1].Revision), log)
		}
	}},
	{"a slow watcher catches up without loss", func(t *testing.T, s store.Store) {
		start := mustRevision(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		began, release := make(chan struct{}), make(chan struct{})
		var got []store.Event
		var once sync.Once
		var target store.Revision
		var wg sync.WaitGroup
		enough := errors.New("enough")
		wg.Go(func() {
			err := s.Watch(ctx, "/", start, func(b store.Batch) error {
				once.Do(func() { close(began) })
				<-release
				got = append(got, b.Events...)
				if b.Revision >= target {
					return enough
				}
				return nil
			})
			if err != enough {
				t.Errorf("watch ended with %v", err)
			}
		})
		<-began
		log := concurrentHistory(t, s, 4, 500)
		target = log[len(log)-1].Revision
		close(release)
		wg.Wait()
		equalEvents(t, got, log)
	}},
	{"a new watch continues exactly where another one was cut", func(t *testing.T, s store.Store) {
		start := mustRevision(t, s)
		var wg sync.WaitGroup
		var log []store.Event
		done := make(chan struct{})
		wg.Go(func() { log = concurrentHistory(t, s, 4, 100); close(done) })
		var got []store.Event
		cut := errors.New("cut")
		for last := false; !last; {
			select {
			case <-done:
				last = true
			default:
			}
			err := s.Watch(within(t), "/", start, func(b store.Batch) error {
				got = append(got, b.Events...)
				start = b.Revision
				return cut
			})
			if err != cut {
				t.Fatalf("watch ended with %v", err)
			}
		}
		wg.Wait()
		w := watch(t, s, "/", start)
		equalEvents(t, append(got, w.upTo(log[len(log)-1].Revision)...), log)
	}},
	{"the sink's error ends the watch and is returned as it is", func(t *testing.T, s store.Store) {
		enough := errors.New("enough")
		if err := s.Watch(within(t), "/", 0, func(store.Batch) error { return enough }); err != enough {
			t.Errorf("watch returned %v", err)
		}
	}},
	{"the future cannot be watched", func(t *testing.T, s store.Store) {
		rev := mustRevision(t, s)
		if err := watch(t, s, "/", rev+1000).reason(); !errors.Is(err, store.ErrFuture) {
			t.Errorf("watch in the future: %v", err)
		}
	}},
}

var progressChecks = []check{
	{"the first batch comes as soon as the watch is established", func(t *testing.T, s store.Store) {
		rev := mustCreate(t, s, "/a", "x")
		for _, after := range []store.Revision{0, rev} {
			w := watch(t, s, "/", after).started()
			if got := w.upTo(rev); len(got) > 0 {
				t.Errorf("watch after %d: %d events", after, len(got))
			}
		}
	}},
	{"a watch of an idle prefix gets progress reports", func(t *testing.T, s store.Store) {
		w := watch(t, s, "/idle/", 0).started()
		for i := range 5 {
			rev := mustCreate(t, s, fmt.Sprintf("/busy/%d", i), "x")
			if got := w.upTo(rev); len(got) > 0 {
				t.Fatalf("%d events", len(got))
			}
		}
	}},
	{"progress never overtakes events", func(t *testing.T, s store.Store) {
		// The recorder of each watch fails if an event comes late: after a batch that claimed to cover it.
		start := mustRevision(t, s)
		w := watch(t, s, "/k/1", start)
		log := concurrentHistory(t, s, 8, 100)
		log = slices.DeleteFunc(log, func(e store.Event) bool { return len(e.Key) < 4 || e.Key[:4] != "/k/1" })
		equalEvents(t, w.upTo(mustRevision(t, s)), log)
	}},
}

var compactionChecks = []check{
	{"lists before the compacted revision fail, lists from it on succeed", func(t *testing.T, s store.Store) {
		log := someHistory(t, s)
		at := log[len(log)/2].Revision
		before := mustList(t, s, "/", store.ListOptions{Revision: at})
		if err := s.Compact(within(t), at); err != nil {
			t.Fatal(err)
		}
		for _, e := range log {
			page, err := s.List(within(t), "/", store.ListOptions{Revision: e.Revision})
			if e.Revision < at && !errors.Is(err, store.ErrCompacted) {
				t.Errorf("list at %d, compacted at %d: %v", e.Revision, at, err)
			}
			if e.Revision >= at && err != nil {
				t.Errorf("list at %d, compacted at %d: %v", e.Revision, at, err)
			}
			if e.Revision == at && !slices.EqualFunc(page.Entries, before.Entries, sameEntry) {
				t.Errorf("compaction at %d changed the state from %v to %v", at, before, page)
			}
		}
	}},
	{"watches before the compacted revision fail, watches from it on succeed", func(t *testing.T, s store.Store) {
		log := someHistory(t, s)
		half := len(log) / 2
		at := log[half].Revision
		if err := s.Compact(within(t), at); err != nil {
			t.Fatal(err)
		}
		for _, e := range log[:half-1] {
			if err := watch(t, s, "/", e.Revision).reason(); !errors.Is(err, store.ErrCompacted) {
				t.Errorf("watch after %d, compacted at %d: %v", e.Revision, at, err)
			}
		}
		for i, e := range log[half:] {
			equalEvents(t, watch(t, s, "/", e.Revision).upTo(log[len(log)-1].Revision), log[half+i+1:])
		}
	}},
	{"a watch that is up to date is not affected", func(t *testing.T, s store.Store) {
		log := someHistory(t, s)
		w := watch(t, s, "/", log[0].Revision)
		w.upTo(log[len(log)-1].Revision)
		if err := s.Compact(within(t), log[len(log)-1].Revision); err != nil {
			t.Fatal(err)
		}
		log = append(log, someHistory(t, s)...)
		equalEvents(t, w.upTo(log[len(log)-1].Revision), log[1:])
		w.end()
	}},
	{"pages continue at the compacted revision", func(t *testing.T, s store.Store) {
		for i := range 10 {
			mustCreate(t, s, fmt.Sprintf("/a/%d", i), "x")
		}
		first := mustList(t, s, "/a/", store.ListOptions{Limit: 4})
		rev := mustDelete(t, s, "/a/7", first.Revision-2)
		mustCreate(t, s, "/b", "x")
		if err := s.Compact(within(t), first.Revision); err != nil {
			t.Fatal(err)
		}
		next := store.ListOptions{Limit: 4, Revision: first.Revision, From: "/a/3\x00"}
		if page := mustList(t, s, "/a/", next); len(page.Entries) != 4 || page.Entries[3].Key != "/a/7" || page.Remaining != 2 {
			t.Errorf("second page is %+v", page)
		}
		if err := s.Compact(within(t), rev); err != nil {
			t.Fatal(err)
		}
		if _, err := s.List(within(t), "/a/", next); !errors.Is(err, store.ErrCompacted) {
			t.Errorf("list before the compaction: %v", err)
		}
	}},
	{"a revision is compacted only once, and never a future one", func(t *testing.T, s store.Store) {
		rev := mustCreate(t, s, "/a", "x")
		if err := s.Compact(within(t), rev+1000); !errors.Is(err, store.ErrFuture) {
			t.Errorf("compact in the future: %v", err)
		}
		if err := s.Compact(within(t), rev); err != nil {
			t.Fatal(err)
		}
		for _, again := range []store.Revision{rev, rev - 1} {
			if err := s.Compact(within(t), again); !errors.Is(err, store.ErrCompacted) {
				t.Errorf("compact at %d after %d: %v", again, rev, err)
			}
		}
		unchanged(t, s, "/a", "x", rev)
	}},
}

func sameEntry(a, b store.Entry) bool {
	return a.Key == b.Key && string(a.Value) == string(b.Value) && a.Revision == b.Revision
}

// someHistory makes changes of all kinds and returns their events.
func someHistory(t *testing.T, s store.Store) []store.Event {
	t.Helper()
	var log []store.Event
	put := func(key, value string, rev store.Revision) store.Revision {
		log = append(log, store.Event{Key: key, Value: []byte(value), Revision: rev})
		return rev
	}
	for i := range 5 {
		key := fmt.Sprintf("/h/%d/%d", mustRevision(t, s), i)
		rev := put(key, "one", mustCreate(t, s, key, "one"))
		rev = put(key, "two", mustUpdate(t, s, key, "two", rev))
		if i%2 == 0 {
			log = append(log, store.Event{Type: store.Delete, Key: key, Revision: mustDelete(t, s, key, rev)})
		}
	}
	return log
}

// concurrentHistory runs concurrent writers and returns the events of all of them in order.
func concurrentHistory(t *testing.T, s store.Store, writers, each int) []store.Event {
	var mu sync.Mutex
	var log []store.Event
	race(t, writers, func(i int) error {
		key := fmt.Sprintf("/k/%d", i)
		var mine []store.Event
		var rev store.Revision
		for n := range each {
			e := store.Event{Key: key, Value: fmt.Append(nil, n)}
			var err error
			switch {
			case rev == 0:
				e.Revision, err = s.Create(within(t), key, e.Value, 0)
			case n%10 == 9:
				e.Type, e.Value = store.Delete, nil
				e.Revision, err = s.Delete(within(t), key, rev)
			default:
				e.Revision, err = s.Update(within(t), key, e.Value, rev, 0)
			}
			if err != nil {
				return err
			}
			mine = append(mine, e)
			rev = e.Revision
			if e.Type == store.Delete {
				rev = 0
			}
		}
		mu.Lock()
		defer mu.Unlock()
		log = append(log, mine...)
		return nil
	})
	slices.SortFunc(log, func(a, b store.Event) int { return int(a.Revision - b.Revision) })
	return log
}
