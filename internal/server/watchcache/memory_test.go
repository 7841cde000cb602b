package watchcache_test

import (
	"fmt"
	"runtime"
	"testing"
	"weak"

	"github.com/millrace/millrace/internal/server/store/memory"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// TestCursorOutsideTheWindowKeepsNothingAlive tests cursors that are too slow, and cursors that have nothing to read
// for a long time.
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
