package watchcache_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"weak"

	"github.com/millrace/millrace/store"
	"github.com/millrace/millrace/store/memory"
	"github.com/millrace/millrace/watchcache"
)

// TestCursorOutsideTheWindowKeepsNothingAlive is about those that are too slow, and those that have nothing to read for a
// long time.
func TestCursorOutsideTheWindowKeepsNothingAlive(t *testing.T) {
	w := build(t, watchcache.Options{WindowEvents: 100}, memory.Options{})
	w.start()
	behind := w.watch(w.pods, 1, watchcache.All())
	walking := w.watch(w.pods, 1, watchcache.Field(fieldPhase, "Failed"))
	late := w.watch(w.pods, 1, watchcache.Namespace("a"))
	idle := w.watch(w.pods, 1, watchcache.Key(pods+"a/x"))
	w.put(pods+"a/x", "|||1")
	w.put(pods+"a/x", "|||2")
	w.settle()
	read(walking)
	events, objects := func() (events []weak.Pointer[watchcache.Event], objects []weak.Pointer[watchcache.Object]) {
		for range 2 {
			e, ok, err := idle.Next()
			if !ok || err != nil {
				t.Fatal(ok, err)
			}
			events, objects = append(events, weak.Make(e)), append(objects, weak.Make(e.Object))
		}
		return events, objects
	}()
	for i := range 300 {
		w.put(fmt.Sprintf("%sb/y%d", pods, i%10), "|||")
	}
	w.settle()
	runtime.GC()
	for i, e := range events {
		if e.Value() != nil {
			t.Errorf("event %d is alive", i)
		}
	}
	if objects[0].Value() != nil {
		t.Error("the old object is alive")
	}
	if objects[1].Value() == nil {
		t.Error("the newest object is not: the test shows nothing")
	}
	for _, c := range []*watchcache.Cursor{behind, late} {
		_, err := read(c)
		w.wants(err, watchcache.ErrExpired)
	}
	_, err := read(walking)
	w.wants(err, watchcache.ErrExpired)
	w.reads(idle)
}

func TestClosedCursorKeepsNothingAlive(t *testing.T) {
	w := build(t, watchcache.Options{WindowEvents: 100}, memory.Options{})
	w.start()
	c := w.watch(w.pods, 1, watchcache.Namespace("a"))
	w.put(pods+"a/x", "|||1")
	w.settle()
	e, _, _ := c.Next()
	event := weak.Make(e)
	c.Close()
	for range 200 {
		w.put(pods+"a/y", "|||")
	}
	w.settle()
	runtime.GC()
	if event.Value() != nil {
		t.Error("the event is alive")
	}
	runtime.KeepAlive(c)
}

// script is a store whose log is written by the test.
type script struct {
	store.Store
	rev     store.Revision
	batches chan store.Batch
}

func (s *script) Revision(context.Context) (store.Revision, error) { return s.rev, nil }

func (s *script) List(context.Context, string, store.ListOptions) (store.Page, error) {
	return store.Page{Revision: s.rev}, nil
}

func (s *script) Watch(ctx context.Context, _ string, _ store.Revision, sink func(store.Batch) error) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
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
	s := &script{rev: 10, batches: make(chan store.Batch)}
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

func TestLogThatBeginsTooEarlyOrSaysNothingIsHarmless(t *testing.T) {
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
