package watchcache_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/server/watchcache"
)

func TestHistoryIsForgottenWithAge(t *testing.T) {
	run(t, watchcache.Options{WindowAge: 10 * time.Minute}, func(w *world) {
		rare, slow := w.add(widgets), w.watch(w.pods, 1, watchcache.All())
		w.must(rare.WaitReady(context.Background()))
		w.put(widgets+"a/x", "|||")
		w.settle()
		started := w.cache.Revision()
		for i := range 2000 {
			w.put(fmt.Sprintf("%sa/x%d", pods, i), "|n1||")
		}
		w.settle()
		busy := w.watch(w.pods, 1, watchcache.All())
		_, err := read(busy)
		w.must(err)
		time.Sleep(9 * time.Minute)
		if s := w.pods.Stats(); s.WindowEvents != 2000 {
			t.Errorf("after nine of ten minutes %d events are left", s.WindowEvents)
		}
		late := w.cache.Revision()
		for i := range 1000 {
			w.put(fmt.Sprintf("%sa/y%d", pods, i), "|n1||")
		}
		w.settle()
		time.Sleep(2 * time.Minute)
		if s := w.pods.Stats(); s.WindowEvents != 1000 || s.Oldest != late {
			t.Errorf("after eleven minutes: %+v", s)
		}
		_, err = read(slow)
		w.wants(err, watchcache.ErrExpired)
		_, err = w.pods.SnapshotAt(late - 1)
		w.wants(err, watchcache.ErrExpired)
		if got, err := read(busy); err != nil || len(got) != 1000 {
			t.Errorf("a watch that kept up gets %d events and %v", len(got), err)
		}
		if got, err := read(w.watch(w.pods, late, watchcache.All())); err != nil || len(got) != 1000 {
			t.Errorf("a new watch gets %d events and %v", len(got), err)
		}
		time.Sleep(24 * time.Hour)
		if s := w.pods.Stats(); s.WindowEvents != 128 {
			t.Errorf("after a day %d events are left, want the newest 128", s.WindowEvents)
		}
		w.reads(w.watch(rare, 1, watchcache.All()), fmt.Sprint(started, " Added x"))
		w.put(pods+"a/z", "|n1||")
		w.settle()
		w.reads(busy, fmt.Sprint(w.cache.Revision(), " Added z"))
	})
}
