package watchcache_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/server/watchcache"
)

func TestCursorDeliversEveryEventAfterItsStartInOrder(t *testing.T) {
	run(t, watchcache.Options{}, func(w *world) {
		c := w.watch(w.pods, w.cache.Revision(), watchcache.All())
		w.put(pods+"a/x", "|n1|Pending|")
		w.put(pods+"a/y", "|n1|Pending|")
		w.put(pods+"a/x", "|n1|Running|")
		w.put(nodes+"n1", "||") // a kind that was not added
		w.delete(pods + "a/y")
		w.settle()
		w.reads(c, "2 Added x", "3 Added y", "4 Modified x", "6 Deleted y")
		w.reads(c)
		w.put(pods+"a/y", "|n1|Pending|")
		w.settle()
		w.reads(c, "7 Added y")
		again := w.watch(w.pods, 4, watchcache.All())
		w.reads(again, "6 Deleted y", "7 Added y")
	})
}

func TestEventsCarryTheStateBeforeAndAfter(t *testing.T) {
	run(t, watchcache.Options{}, func(w *world) {
		c := w.watch(w.pods, w.cache.Revision(), watchcache.All())
		w.put(pods+"a/x", "app=web|n1|Pending|1")
		w.put(pods+"a/x", "app=db|n2|Running|2")
		w.delete(pods + "a/x")
		w.settle()
		added, _, _ := c.Next()
		modified, _, _ := c.Next()
		deleted, _, _ := c.Next()
		if added.Previous != nil || added.Object.Labels.Get("app") != "web" {
			t.Errorf("added: %+v", added)
		}
		if modified.Previous != added.Object || modified.Object.Field(fieldNode) != "n2" || modified.Object.Labels.Get("app") != "db" {
			t.Errorf("modified: %+v", modified)
		}
		if deleted.Object != modified.Object || deleted.Previous != deleted.Object {
			t.Errorf("deleted: %+v", deleted)
		}
		if deleted.Revision != 4 || deleted.Object.Revision != 3 || string(deleted.Object.Value()) != "app=db|n2|Running|2" {
			t.Errorf("deleted at %d carries %s of %d", deleted.Revision, deleted.Object.Value(), deleted.Object.Revision)
		}
		if o := deleted.Object; o.Namespace() != "a" || o.Name() != "x" {
			t.Errorf("deleted %s in %s", o.Name(), o.Namespace())
		}
	})
}

func TestTopicsDeliverWhatConcernsThemAndNothingElse(t *testing.T) {
	run(t, watchcache.Options{}, func(w *world) {
		topics := map[string]watchcache.Topic{
			"namespace a": watchcache.Namespace("a"),
			"key a/x":     watchcache.Key(pods + "a/x"),
			"node n1":     watchcache.Field(fieldNode, "n1"),
			"node n2":     watchcache.Field(fieldNode, "n2"),
			"unassigned":  watchcache.Field(fieldNode, ""),
			"running":     watchcache.Field(fieldPhase, "Running"), // not indexed
		}
		from := w.cache.Revision()
		early := map[string]*watchcache.Cursor{}
		for name, topic := range topics {
			early[name] = w.watch(w.pods, from, topic)
		}
		w.put(pods+"a/x", "||Pending|")
		w.put(pods+"b/y", "||Pending|")
		w.put(pods+"a/x", "|n1|Pending|")
		w.put(pods+"a/x", "|n1|Running|")
		w.put(pods+"a/x", "|n2|Running|")
		w.put(pods+"b/y", "|n1|Pending|")
		w.delete(pods + "a/x")
		w.settle()
		want := map[string][]string{
			"namespace a": {"2 Added x", "4 Modified x", "5 Modified x", "6 Modified x", "8 Deleted x"},
			"key a/x":     {"2 Added x", "4 Modified x", "5 Modified x", "6 Modified x", "8 Deleted x"},
			"node n1":     {"4 Modified x", "5 Modified x", "6 Modified x", "7 Modified y"},
			"node n2":     {"6 Modified x", "8 Deleted x"},
			"unassigned":  {"2 Added x", "3 Added y", "4 Modified x", "7 Modified y"},
			"running":     {"5 Modified x", "6 Modified x", "8 Deleted x"},
		}
		for name, topic := range topics {
			t.Run(name, func(t *testing.T) {
				w := &world{T: t, cache: w.cache, pods: w.pods}
				w.reads(early[name], want[name]...)
				w.reads(w.watch(w.pods, from, topic), want[name]...)
			})
		}
		if n := w.pods.Stats().Topics; n != 5 {
			t.Errorf("there are %d topics, want the 5 that have lists", n)
		}
	})
}

func TestTopicListsExistWhileCursorsFollowThem(t *testing.T) {
	run(t, watchcache.Options{}, func(w *world) {
		a, b := w.watch(w.pods, 1, watchcache.Namespace("a")), w.watch(w.pods, 1, watchcache.Namespace("a"))
		if s := w.pods.Stats(); s.Topics != 1 || s.Cursors != 2 {
			t.Fatalf("%+v", s)
		}
		a.Close()
		a.Close()
		b.Close()
		if s := w.pods.Stats(); s.Topics != 0 || s.Cursors != 0 {
			t.Fatalf("%+v", s)
		}
		if _, _, err := a.Next(); err == nil {
			t.Error("a closed cursor goes on")
		}
	})
}

func TestCursorWakesForItsTopicOnly(t *testing.T) {
	run(t, watchcache.Options{}, func(w *world) {
		mine := w.watch(w.pods, 1, watchcache.Field(fieldNode, "n1"))
		w.reads(mine)
		wake := mine.Wake()
		w.put(pods+"a/x", "|n2|Pending|")
		w.settle()
		select {
		case <-wake:
			t.Fatal("woken by another node's pod")
		default:
		}
		w.put(pods+"a/y", "|n1|Pending|")
		<-wake
		w.reads(mine, "3 Added y")
	})
}

func TestEveryEventWakesAllWaitingCursors(t *testing.T) {
	run(t, watchcache.Options{}, func(w *world) {
		const cursors, events = 50, 40
		counts := make([]int, cursors)
		for i := range cursors {
			c := w.watch(w.pods, 1, watchcache.All())
			w.ended.Go(func() {
				for counts[i] < events {
					if _, ok, err := c.Next(); err != nil {
						t.Error(err)
						return
					} else if ok {
						counts[i]++
						continue
					}
					<-c.Wake()
				}
			})
		}
		for i := range events {
			w.put(fmt.Sprintf("%sa/x%d", pods, i), "|||")
			if i%7 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		synctest.Wait()
		for i, n := range counts {
			if n != events {
				t.Errorf("cursor %d has %d events of %d", i, n, events)
			}
		}
	})
}

func TestBookmarkIsJustBelowTheNextEvent(t *testing.T) {
	run(t, watchcache.Options{}, func(w *world) {
		bookmark := func(c *watchcache.Cursor, want int64) {
			t.Helper()
			if got := c.Revision(); int64(got) != want {
				t.Fatalf("cursor is at %d, want %d", got, want)
			}
		}
		all, b := w.watch(w.pods, 1, watchcache.All()), w.watch(w.pods, 1, watchcache.Namespace("b"))
		bookmark(all, 1)
		w.put(pods+"a/x", "|||")
		w.put(nodes+"n", "||")
		w.put(pods+"a/y", "|||")
		w.settle()
		bookmark(all, 1)
		bookmark(b, 4)
		all.Next()
		bookmark(all, 3) // not 2: the cache knows that nothing comes before 4
		all.Next()
		bookmark(all, 4)
		w.put(nodes+"m", "||")
		w.settle()
		bookmark(all, 5)
		w.put(pods+"b/z", "|||")
		w.settle()
		bookmark(b, 5)
		w.reads(b, "6 Added z")
		bookmark(b, 6)
	})
}

func TestCursorAheadOfTheCacheLeavesOutWhatComesBefore(t *testing.T) {
	run(t, watchcache.Options{}, func(w *world) {
		c := w.watch(w.pods, 3, watchcache.Namespace("a"))
		w.put(pods+"a/x", "|||")
		w.put(pods+"a/y", "|||")
		w.put(pods+"a/z", "|||")
		w.settle()
		w.reads(c, "4 Added z")
	})
}

func TestSnapshotAndCursorMeetWithoutGapOrOverlap(t *testing.T) {
	run(t, watchcache.Options{}, func(w *world) {
		w.put(pods+"a/x", "|||")
		w.put(nodes+"n", "||")
		w.settle()
		s, c, err := w.pods.WatchFromNow(watchcache.All())
		w.must(err)
		defer c.Close()
		if s.Revision() != 3 || s.Len() != 1 || c.Revision() != 3 {
			t.Fatalf("snapshot at %d with %d objects, cursor at %d", s.Revision(), s.Len(), c.Revision())
		}
		w.put(pods+"a/y", "|||")
		w.settle()
		w.reads(c, "4 Added y")
	})
}

func TestSlowCursorCatchesUpWithoutLoss(t *testing.T) {
	run(t, watchcache.Options{}, func(w *world) {
		slow := w.watch(w.pods, 1, watchcache.All())
		var want []string
		for i := range 3000 {
			name := fmt.Sprintf("x%d", i)
			rev := w.put(pods+"a/"+name, "|||")
			want = append(want, fmt.Sprintf("%d Added %s", rev, name))
		}
		w.settle()
		w.reads(slow, want...)
	})
}

func TestCursorBeyondTheWindowExpiresAndOneInsideDoesNot(t *testing.T) {
	run(t, watchcache.Options{WindowEvents: 100}, func(w *world) {
		late, late2 := w.watch(w.pods, 1, watchcache.All()), w.watch(w.pods, 1, watchcache.Field(fieldNode, "n1"))
		idle := w.watch(w.pods, 1, watchcache.Field(fieldNode, "n2"))
		w.reads(late2)
		w.reads(idle)
		for i := range 50 {
			w.put(fmt.Sprintf("%sa/x%d", pods, i), "|n1||")
		}
		w.settle()
		inside := w.watch(w.pods, 51, watchcache.All())
		for i := range 100 {
			w.put(fmt.Sprintf("%sa/y%d", pods, i), "|n1||")
		}
		w.settle()
		for _, c := range []*watchcache.Cursor{late, late2} {
			got, err := read(c)
			w.wants(err, watchcache.ErrExpired)
			if len(got) > 0 {
				t.Errorf("an expired cursor began with %s", got[0])
			}
			_, _, again := c.Next()
			w.wants(again, watchcache.ErrExpired)
		}
		if got, err := read(inside); err != nil || len(got) != 100 {
			t.Errorf("a cursor inside the window has %d events and %v", len(got), err)
		}
		w.reads(idle)
		_, err := w.pods.Watch(50, watchcache.All())
		w.wants(err, watchcache.ErrExpired)
		if s := w.pods.Stats(); s.WindowEvents != 100 || s.Oldest != 51 {
			t.Errorf("%+v", s)
		}
	})
}

func TestWindowIsBoundedInBytes(t *testing.T) {
	run(t, watchcache.Options{WindowBytes: 1 << 20}, func(w *world) {
		value := "|||" + string(make([]byte, 10_000))
		for range 300 {
			w.put(pods+"a/x", value)
		}
		w.settle()
		if s := w.pods.Stats(); s.WindowBytes > 1<<20 || s.WindowEvents < 90 {
			t.Errorf("%+v", s)
		}
	})
}

func TestWaitForEndsWithItsContext(t *testing.T) {
	run(t, watchcache.Options{}, func(w *world) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		w.wants(w.cache.WaitFor(ctx, 100), context.DeadlineExceeded)
		reached := make(chan error)
		go func() { reached <- w.cache.WaitFor(context.Background(), 3) }()
		w.put(pods+"a/x", "|||")
		synctest.Wait()
		select {
		case <-reached:
			t.Fatal("too early")
		default:
		}
		w.put(pods+"a/y", "|||")
		w.must(<-reached)
	})
}
