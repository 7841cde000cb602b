package watchcache_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/faults"
	"github.com/millrace/millrace/internal/server/store/memory"
	"github.com/millrace/millrace/internal/server/watchcache"
)

func TestNothingIsServedBeforeTheFirstFill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := build(t, watchcache.Options{}, memory.Options{})
		w.put(pods+"a/x", "|||")
		up := w.store.Down()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		w.ended.Go(func() { w.cache.Run(ctx) })
		time.Sleep(30 * time.Second)
		if w.cache.Ready() || w.pods.Ready() || w.cache.Lost() == nil {
			t.Error("ready without a store")
		}
		_, err := w.pods.Watch(1, watchcache.All())
		w.wants(err, watchcache.ErrNotReady)
		_, _, err = w.pods.WatchFromNow(watchcache.All())
		w.wants(err, watchcache.ErrNotReady)
		_, err = w.pods.SnapshotAt(1)
		w.wants(err, watchcache.ErrNotReady)
		if s := w.pods.Snapshot(); s.Revision() != 0 || s.Len() != 0 {
			t.Error("snapshot of nothing")
		}
		up()
		w.must(w.cache.WaitReady(ctx))
		w.must(w.pods.WaitReady(ctx))
		if s := w.pods.Snapshot(); s.Revision() != 2 || s.Len() != 1 {
			t.Errorf("snapshot at %d has %q", s.Revision(), names(s))
		}
		_, err = w.pods.Watch(1, watchcache.All())
		w.wants(err, watchcache.ErrExpired)
		cancel()
		w.ended.Wait()
	})
}

func TestFillReadsPagesOfOneRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := build(t, watchcache.Options{PageSize: 3}, memory.Options{})
		other := w.add(nodes)
		for i := range 20 {
			w.put(fmt.Sprintf("%sa/x%02d", pods, i), "|||")
			w.put(fmt.Sprintf("%sn%02d", nodes, i), "||")
		}
		// Writes go on while the pages are read.
		w.store.Inject(faults.Rule{Ops: faults.List, Delay: time.Second})
		w.ended.Go(func() {
			for i := range 20 {
				time.Sleep(500 * time.Millisecond)
				w.put(fmt.Sprintf("%sb/y%02d", pods, i), "|||")
			}
		})
		w.start()
		c := w.watch(w.pods, 41, watchcache.All())
		if n := w.pods.Snapshot().Len(); n < 20 || other.Snapshot().Len() != 20 {
			t.Errorf("filled with %d pods and %d nodes", n, other.Snapshot().Len())
		}
		time.Sleep(time.Minute)
		if got, err := read(c); len(got) != 20 || err != nil {
			t.Errorf("%d events, %v", len(got), err)
		}
	})
}

func TestLogIsResumedWhereItWasLost(t *testing.T) {
	run(t, watchcache.Options{}, func(w *world) {
		c := w.watch(w.pods, 1, watchcache.All())
		w.put(pods+"a/x", "|||")
		w.settle()
		w.store.Cut(store.ErrUnavailable)
		up := w.store.Down()
		time.Sleep(time.Minute)
		if w.cache.Lost() == nil || !w.cache.Ready() {
			t.Error("the loss was not noticed")
		}
		_, err := w.cache.Fresh(context.Background())
		w.wants(err, store.ErrUnavailable)
		if got := names(w.pods.Snapshot()); !slices.Equal(got, []string{"a/x"}) {
			t.Errorf("while the store is away there is %q", got)
		}
		up()
		w.put(pods+"a/y", "|||")
		w.settle()
		w.reads(c, "2 Added x", "3 Added y")
		if s := w.cache.Stats(); s.Refills != 0 || s.Resumes == 0 || w.cache.Lost() != nil {
			t.Errorf("%+v, lost %v", s, w.cache.Lost())
		}
	})
}

func TestRefillEndsCursorsAndKeepsWhatHasNotChanged(t *testing.T) {
	run(t, watchcache.Options{}, func(w *world) {
		w.put(pods+"a/same", "|||")
		w.put(pods+"a/changed", "|||1")
		w.put(pods+"a/deleted", "|||")
		w.settle()
		same, _ := w.pods.Get(pods + "a/same")
		behind := w.watch(w.pods, 1, watchcache.All())
		waiting, one := w.watch(w.pods, 4, watchcache.All()), w.watch(w.pods, 4, watchcache.Key(pods+"a/changed"))
		w.reads(waiting)
		w.reads(one)
		wakeWaiting, wakeOne := waiting.Wake(), one.Wake()

		release := w.store.Hold()
		w.put(pods+"a/changed", "|||2")
		w.delete(pods + "a/deleted")
		w.must(w.store.Compact(context.Background(), w.put(pods+"a/new", "|||")))
		w.store.Cut(store.ErrUnavailable)
		release()
		<-wakeWaiting
		<-wakeOne
		rev := w.settle()
		for _, c := range []*watchcache.Cursor{behind, waiting, one} {
			before := c.Revision()
			got, err := read(c)
			w.wants(err, watchcache.ErrRefilled)
			if len(got) > 0 || before > 4 {
				t.Errorf("the cursor at %d went on: %q", before, got)
			}
		}
		if got := names(w.pods.Snapshot()); !slices.Equal(got, []string{"a/changed", "a/new", "a/same"}) {
			t.Errorf("after the refill there is %q", got)
		}
		if o, _ := w.pods.Get(pods + "a/same"); o != same {
			t.Error("an object that did not change was read again")
		}
		_, err := w.pods.Watch(4, watchcache.All())
		w.wants(err, watchcache.ErrExpired)
		_, err = w.pods.SnapshotAt(4)
		w.wants(err, watchcache.ErrExpired)
		c := w.watch(w.pods, rev, watchcache.All())
		w.put(pods+"a/x", "|||")
		w.settle()
		w.reads(c, fmt.Sprintf("%d Added x", rev+1))
		if s := w.cache.Stats(); s.Refills != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestStoreThatWasReplacedByAnotherIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		swap := &swappable{Store: memory.New(memory.Options{})}
		w := &world{T: t, store: faults.Wrap(swap)}
		defer w.end()
		w.cache = watchcache.New(w.store, watchcache.Options{})
		w.pods = w.add(pods)
		for i := range 10 {
			w.put(fmt.Sprintf("%sa/x%d", pods, i), "|||")
		}
		w.start()
		c := w.watch(w.pods, 11, watchcache.All())
		up := w.store.Down()
		synctest.Wait()
		swap.Close()
		swap.Store = memory.New(memory.Options{})
		up()
		w.put(pods+"a/x0", "|||other")
		time.Sleep(time.Minute)
		_, err := read(c)
		w.wants(err, watchcache.ErrRefilled)
		s := w.pods.Snapshot()
		if s.Revision() != 2 || s.Len() != 1 || w.cache.Revision() != 2 {
			t.Errorf("snapshot at %d has %q", s.Revision(), names(s))
		}
		if o, _ := s.Get(pods + "a/x0"); string(o.Value()) != "|||other" {
			t.Errorf("object of the former store: %s", o.Value())
		}
	})
}

// swappable is a store that can be replaced by another while nobody uses it.
type swappable struct{ store.Store }

// restorable is a store that can be replaced by another while it is watched, and whose watches then are silent, as
// those of etcd: a restored etcd does not refuse to watch from a revision that it has not reached.
type restorable struct{ swappable }

func (s *restorable) Watch(ctx context.Context, prefix string, after store.Revision, sink func(store.Batch) error) error {
	if err := s.Store.Watch(ctx, prefix, after, sink); !errors.Is(err, store.ErrClosed) {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func TestAStoreThatWasRestoredUnderASilentWatchIsReadAgain(t *testing.T) {
	for _, asked := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			swap := &restorable{swappable{memory.New(memory.Options{})}}
			w := &world{T: t, store: faults.Wrap(swap)}
			defer w.end()
			w.cache = watchcache.New(w.store, watchcache.Options{})
			w.pods = w.add(pods)
			forgotten := 0
			w.cache.OnReplaced(func() { forgotten++ })
			for i := range 10 {
				w.put(fmt.Sprintf("%sa/x%d", pods, i), "|||")
			}
			w.start()
			c := w.watch(w.pods, 11, watchcache.All())
			waited := make(chan error, 1)
			go func() { waited <- w.cache.WaitFor(context.Background(), 20) }()
			synctest.Wait()
			swap.Close()
			swap.Store = memory.New(memory.Options{})
			w.put(pods+"a/x0", "|||other")
			if asked {
				_, err := w.cache.Fresh(context.Background())
				w.wants(err, store.ErrUnavailable) // and not what the cache shows, which is older
			}
			time.Sleep(30 * time.Second)
			_, err := read(c)
			w.wants(err, watchcache.ErrReplaced)
			w.wants(err, watchcache.ErrRefilled)
			w.wants(<-waited, watchcache.ErrReplaced)
			if s := w.pods.Snapshot(); s.Revision() != 2 || s.Len() != 1 || w.cache.Revision() != 2 || forgotten != 1 {
				t.Errorf("snapshot at %d has %q, revisions were forgotten %d times", s.Revision(), names(s), forgotten)
			}
			c = w.watch(w.pods, 2, watchcache.All())
			w.put(pods+"a/x1", "|||")
			if rev := w.settle(); rev != 3 {
				t.Errorf("the cache is at %d", rev)
			}
			w.reads(c, "3 Added x1")
		})
	}
}

func TestValuesArePackedWhileTheCacheIsFilledAgain(t *testing.T) {
	run(t, watchcache.Options{}, func(w *world) {
		noise := rand.New(rand.NewPCG(1, 2))
		for i := range 50 { // resembling nothing, so that the packing goroutine notes that it tried
			text := make([]byte, 2000)
			for j := range text {
				text[j] = byte('a' + noise.IntN(26))
			}
			w.put(fmt.Sprintf("%sa/x%02d", pods, i), "|||"+string(text))
		}
		w.settle()
		remove := w.store.Inject(faults.Rule{Ops: faults.List, Delay: time.Minute})
		w.must(w.store.Compact(context.Background(), w.put(pods+"a/new", "|||")))
		w.store.Cut(store.ErrCompacted)
		time.Sleep(5 * time.Minute)
		remove()
		w.settle()
		if s := w.cache.Stats(); s.Refills != 1 || w.pods.Snapshot().Len() != 51 {
			t.Errorf("%+v", s)
		}
	})
}

func TestKindAddedWhileWritesGoOnMissesNothing(t *testing.T) {
	run(t, watchcache.Options{PageSize: 5}, func(w *world) {
		// Lists are slow, so that events come before, during and after the list.
		w.store.Inject(faults.Rule{Ops: faults.List, Delay: 10 * time.Millisecond})
		var want []string
		w.ended.Go(func() {
			for i := range 100 {
				w.put(fmt.Sprintf("%sa/x%02d", widgets, i), "|||")
				time.Sleep(time.Millisecond)
			}
		})
		time.Sleep(20 * time.Millisecond)
		k := w.add(widgets)
		if _, err := k.Watch(1, watchcache.All()); !errors.Is(err, watchcache.ErrNotReady) {
			t.Errorf("watch of a kind that is not filled: %v", err)
		}
		w.must(k.WaitReady(context.Background()))
		s, c, err := k.WatchFromNow(watchcache.All())
		w.must(err)
		defer c.Close()
		time.Sleep(time.Second)
		w.settle()
		got := names(s)
		if len(got) < 20 || len(got) == 100 {
			t.Errorf("snapshot has %d objects: the test shows nothing", len(got))
		}
		for {
			e, ok, err := c.Next()
			w.must(err)
			if !ok {
				break
			}
			got = append(got, "a/"+e.Object.Name())
		}
		for i := range 100 {
			want = append(want, fmt.Sprintf("a/x%02d", i))
		}
		if !slices.Equal(got, want) || k.Snapshot().Len() != 100 {
			t.Errorf("snapshot and events have %d: %q", len(got), got)
		}
	})
}

func TestNewKindIsFilledOnceTheStoreIsBack(t *testing.T) {
	run(t, watchcache.Options{}, func(w *world) {
		w.put(widgets+"a/x", "|||")
		up := w.store.Down()
		w.store.Cut(store.ErrUnavailable)
		k := w.add(widgets)
		time.Sleep(10 * time.Second)
		if k.Ready() {
			t.Error("ready without a store")
		}
		up()
		w.must(k.WaitReady(context.Background()))
		if k.Snapshot().Len() != 1 {
			t.Error("filled with nothing")
		}
	})
}

func TestRemovedKindEndsItsCursorsAndMayComeBack(t *testing.T) {
	run(t, watchcache.Options{}, func(w *world) {
		k := w.add(widgets)
		w.must(k.WaitReady(context.Background()))
		c := w.watch(k, 1, watchcache.Namespace("a"))
		w.reads(c)
		wake := c.Wake()
		w.cache.Remove(k)
		<-wake
		_, err := read(c)
		w.wants(err, watchcache.ErrGone)
		_, err = k.Watch(1, watchcache.All())
		w.wants(err, watchcache.ErrGone)
		w.put(widgets+"a/x", "|||")
		w.settle()
		if s := k.Snapshot(); s.Revision() != 1 || s.Len() != 0 {
			t.Errorf("the removed kind claims to be at %d", s.Revision())
		}
		again := w.add(widgets)
		w.must(again.WaitReady(context.Background()))
		if again.Snapshot().Len() != 1 || len(w.cache.Kinds()) != 2 {
			t.Error("the kind did not come back")
		}
	})
}

func TestKindsMustNotOverlap(t *testing.T) {
	c := watchcache.New(memory.New(memory.Options{}), watchcache.Options{})
	bad := []watchcache.KindOptions{
		{Name: "x", Prefix: "/registry/pods/sub/"}, {Name: "x", Prefix: pods}, {Name: "x", Prefix: "/registry/"},
		{Name: "x", Prefix: "/registry/x"}, {Name: "x", Prefix: "/elsewhere/x/"}, {Prefix: "/registry/x/"},
		{Name: "x", Prefix: "/registry/x/", Indexed: []int{0}},
	}
	if _, err := c.Add(kindOf(pods)); err != nil {
		t.Fatal(err)
	}
	for _, o := range bad {
		if _, err := c.Add(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

func TestEverythingEndsWithRun(t *testing.T) {
	run(t, watchcache.Options{}, func(w *world) {
		c := w.watch(w.pods, 1, watchcache.All())
		w.end()
		_, err := read(c)
		w.wants(err, watchcache.ErrStopped)
		_, err = w.pods.Watch(1, watchcache.All())
		w.wants(err, watchcache.ErrStopped)
		_, err = w.cache.Add(kindOf(widgets))
		w.wants(err, watchcache.ErrStopped)
		w.wants(w.cache.Lost(), watchcache.ErrStopped)
	})
}

func TestConcurrentCallersShareARequestThatWasSentAfterTheyCame(t *testing.T) {
	run(t, watchcache.Options{}, func(w *world) {
		gate := make(chan struct{})
		remove := w.store.Inject(faults.Rule{Ops: faults.Revision, Gate: gate})
		before := w.store.Calls(faults.Revision)
		var asked sync.WaitGroup
		for range 20 {
			asked.Go(func() {
				rev, err := w.cache.Fresh(context.Background())
				if err != nil || rev < 1 {
					t.Error(rev, err)
				}
			})
			synctest.Wait()
		}
		rev := w.put(pods+"a/x", "|||")
		impatient, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := w.cache.Fresh(impatient)
		w.wants(err, context.DeadlineExceeded)
		asked.Go(func() {
			if got, err := w.cache.Fresh(context.Background()); err != nil || got < rev {
				t.Errorf("asked after %d was written, got %d, %v", rev, got, err)
			}
		})
		synctest.Wait()
		close(gate)
		asked.Wait()
		remove()
		if n := w.store.Calls(faults.Revision) - before; n != 2 {
			t.Errorf("the store was asked %d times, want once for the first and once for all others", n)
		}
	})
}

func TestCallerThatGivesUpDoesNotFailOthers(t *testing.T) {
	run(t, watchcache.Options{}, func(w *world) {
		gate := make(chan struct{})
		w.store.Inject(faults.Rule{Ops: faults.Revision, Gate: gate, Times: 2})
		ctx, cancel := context.WithCancel(context.Background())
		var asked sync.WaitGroup
		for range 2 { // one request is sent, one waits to be sent
			asked.Go(func() {
				_, err := w.cache.Fresh(ctx)
				w.wants(err, context.Canceled)
			})
			synctest.Wait()
		}
		asked.Go(func() { // joins the second
			if _, err := w.cache.Fresh(context.Background()); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(gate)
		asked.Wait()
		w.settle()
	})
}

func TestCallerWhoseContextEndsDuringItsRequestDoesNotFailOthers(t *testing.T) {
	run(t, watchcache.Options{}, func(w *world) {
		first, second := make(chan struct{}), make(chan struct{})
		w.store.Inject(faults.Rule{Ops: faults.Revision, Gate: first, Times: 1})
		ctx, cancel := context.WithCancel(context.Background())
		var asked sync.WaitGroup
		ask := func(ctx context.Context, want error) {
			asked.Go(func() {
				_, err := w.cache.Fresh(ctx)
				w.wants(err, want)
			})
			synctest.Wait()
		}
		ask(context.Background(), nil) // sends its request
		ask(ctx, context.Canceled)     // will send the next request
		ask(context.Background(), nil) // joins that request
		w.store.Inject(faults.Rule{Ops: faults.Revision, Gate: second, Times: 1})
		close(first)
		synctest.Wait()
		cancel()
		asked.Wait()
	})
}

func TestAStateThatTheStoreHasForgottenIsExpiredThoughTheWindowReachesBack(t *testing.T) {
	run(t, watchcache.Options{}, func(w *world) {
		first := w.put(pods+"a/x", "|||")
		last := w.put(pods+"a/y", "|||")
		w.settle()
		w.cache.Compacted(last)
		w.cache.Compacted(first) // told late: nothing comes back
		_, err := w.pods.SnapshotAt(first)
		w.wants(err, watchcache.ErrExpired)
		if _, err := w.pods.SnapshotAt(last); err != nil {
			w.Error(err)
		}
		c := w.watch(w.pods, first, watchcache.All())
		w.reads(c, fmt.Sprintf("%d Added y", last))
	})
}
