package watchcache_test

import (
	"context"
	"sync"
	"testing"
	"unsafe"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// script is a store whose log is written by the test.
type script struct {
	store.Store
	batches chan store.Batch
	lost    chan error

	mu   sync.Mutex
	page store.Page
}

func (s *script) Revision(context.Context) (store.Revision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.page.Revision, nil
}

func (s *script) List(context.Context, string, store.ListOptions) (store.Page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.page, nil
}

func (s *script) Watch(ctx context.Context, _ string, _ store.Revision, sink func(store.Batch) error) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-s.lost:
			return err
		case b := <-s.batches:
			if err := sink(b); err != nil {
				return err
			}
		}
	}
}

// put is an event of a pod.
func put(rev store.Revision, name string) store.Event {
	return store.Event{Key: pods + "a/" + name, Value: []byte("|n1||"), Revision: rev}
}

func scripted(t *testing.T, test func(*world, *script)) {
	s := &script{batches: make(chan store.Batch), lost: make(chan error), page: store.Page{Revision: 10}}
	w := &world{T: t, cache: watchcache.New(s, watchcache.Options{})}
	w.pods = w.add(pods)
	w.start()
	defer w.end()
	test(w, s)
}

func TestEventsOfOneRevisionBelongTogether(t *testing.T) {
	scripted(t, func(w *world, s *script) {
		c, one := w.watch(w.pods, 10, watchcache.All()), w.watch(w.pods, 10, watchcache.Field(fieldNode, "n1"))
		s.batches <- store.Batch{Events: []store.Event{put(11, "x"), put(12, "y"), put(12, "z")}, Revision: 14}
		w.must(w.cache.WaitFor(context.Background(), 14))
		for _, c := range []*watchcache.Cursor{c, one} {
			for i, want := range []store.Revision{10, 11, 11, 14} {
				if got := c.Revision(); got != want {
					t.Errorf("after %d events the cursor is at %d, want %d", i, got, want)
				}
				c.Next()
			}
		}
		w.reads(w.watch(w.pods, 11, watchcache.All()), "12 Added y", "12 Added z")
		s.batches <- store.Batch{Events: []store.Event{put(15, "x")}, Revision: 15}
		w.must(w.cache.WaitFor(context.Background(), 15))
		for rev, want := range map[store.Revision]int{10: 0, 11: 1, 12: 3, 13: 3, 14: 3, 15: 3} {
			past, err := w.pods.SnapshotAt(rev)
			w.must(err)
			if past.Len() != want {
				t.Errorf("at %d there are %d, want %d", rev, past.Len(), want)
			}
		}
	})
}

func TestOldEventsAndEmptyBatchesAreHarmless(t *testing.T) {
	scripted(t, func(w *world, s *script) {
		c := w.watch(w.pods, 10, watchcache.All())
		s.batches <- store.Batch{Events: []store.Event{put(9, "w"), put(11, "x")}, Revision: 11}
		s.batches <- store.Batch{Events: []store.Event{put(11, "x"), put(12, "y")}, Revision: 12}
		s.batches <- store.Batch{Revision: 5}
		s.batches <- store.Batch{Events: []store.Event{{Type: store.Delete, Key: pods + "a/never", Revision: 13}}, Revision: 13}
		s.batches <- store.Batch{Revision: 20}
		w.must(w.cache.WaitFor(context.Background(), 20))
		w.reads(c, "11 Added x", "12 Added y")
		if c.Revision() != 20 || w.pods.Snapshot().Revision() != 20 {
			t.Errorf("cursor at %d, snapshot at %d", c.Revision(), w.pods.Snapshot().Revision())
		}
	})
}

func TestNewKindSkipsEventsThatItsListIncludes(t *testing.T) {
	scripted(t, func(w *world, s *script) {
		widget := func(rev store.Revision, name string) store.Event {
			return store.Event{Key: widgets + "a/" + name, Value: []byte("|||"), Revision: rev}
		}
		s.mu.Lock() // blocks the list
		k := w.add(widgets)
		s.batches <- store.Batch{Events: []store.Event{widget(12, "x")}, Revision: 12}
		s.batches <- store.Batch{Events: []store.Event{widget(13, "gone")}, Revision: 13}
		s.batches <- store.Batch{Events: []store.Event{{Type: store.Delete, Key: widgets + "a/gone", Revision: 14}}, Revision: 14}
		s.page = store.Page{Revision: 16}
		for rev, name := range map[store.Revision]string{12: "x", 15: "y"} {
			s.page.Entries = append(s.page.Entries, store.Entry{Key: widgets + "a/" + name, Value: []byte("|||"), Revision: rev})
		}
		s.mu.Unlock()
		w.must(k.WaitReady(context.Background()))
		c := w.watch(k, 16, watchcache.All())
		if snap := k.Snapshot(); snap.Revision() != 16 || snap.Len() != 2 {
			t.Errorf("snapshot at %d has %q", snap.Revision(), names(snap))
		}
		s.batches <- store.Batch{Events: []store.Event{widget(15, "y")}, Revision: 15} // the log is behind the list
		s.batches <- store.Batch{Events: []store.Event{widget(17, "z")}, Revision: 17}
		w.must(w.cache.WaitFor(context.Background(), 17))
		w.reads(c, "17 Added z")
		if n := k.Stats().Events; n != 1 {
			t.Errorf("%d events were made of one", n)
		}
	})
}

func TestLogIsNotResumedInAStoreThatIsBehindIt(t *testing.T) {
	scripted(t, func(w *world, s *script) {
		c := w.watch(w.pods, 10, watchcache.All())
		s.mu.Lock()
		s.page = store.Page{Revision: 3, Entries: []store.Entry{{Key: pods + "a/x", Value: []byte("|||"), Revision: 2}}}
		s.mu.Unlock()
		s.lost <- store.ErrUnavailable
		<-c.Wake()
		_, err := read(c)
		w.wants(err, watchcache.ErrRefilled)
		s.batches <- store.Batch{Events: []store.Event{put(4, "y")}, Revision: 4}
		w.must(w.cache.WaitFor(context.Background(), 4))
		if snap := w.pods.Snapshot(); snap.Revision() != 4 || snap.Len() != 2 {
			t.Errorf("snapshot at %d has %q", snap.Revision(), names(snap))
		}
	})
}

func TestVersionsOfAnObjectShareEqualParts(t *testing.T) {
	scripted(t, func(w *world, s *script) {
		c := w.watch(w.pods, 10, watchcache.All())
		s.batches <- store.Batch{Events: []store.Event{put(11, "x"), put(12, "x")}, Revision: 12}
		w.must(w.cache.WaitFor(context.Background(), 12))
		c.Next()
		e, _, _ := c.Next()
		if unsafe.StringData(e.Object.Key) != unsafe.StringData(e.Previous.Key) {
			t.Error("the key is there twice")
		}
		if &e.Object.Fields[0] != &e.Previous.Fields[0] {
			t.Error("the fields are there twice")
		}
	})
}
