package loop_test

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/informer/informertest"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/watch"
)

var key = loop.Key{Namespace: "ns", Name: "owner"}

// laggingPods returns a source, and an informer that is delay behind it.
func laggingPods(delay time.Duration) (*informertest.Source[*corev1.Pod], *informer.Shared[*corev1.Pod]) {
	source := informertest.NewSource[*corev1.Pod]()
	return source, informer.New(informer.Funcs[*corev1.Pod]{
		ListFunc: source.List,
		WatchFunc: func(ctx context.Context, options metav1.ListOptions) (watch.Stream[*corev1.Pod], error) {
			stream, err := source.Watch(ctx, options)
			return lagging{stream, delay}, err
		},
	}, informer.Options[*corev1.Pod]{})
}

type lagging struct {
	watch.Stream[*corev1.Pod]
	delay time.Duration
}

func (l lagging) Next(ctx context.Context) (watch.Event[*corev1.Pod], error) {
	event, err := l.Stream.Next(ctx)
	if event.Type != watch.Bookmark {
		time.Sleep(l.delay)
	}
	return event, err
}

func TestSettledWaitsUntilTheCacheShowsWhatWasWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, pods := laggingPods(300 * time.Millisecond)
		defer background(t, pods)()
		if err := pods.Synced(t.Context()); err != nil {
			t.Fatal(err)
		}
		var notes loop.Notes
		if err := notes.Settled(t.Context(), key); err != nil {
			t.Fatalf("nothing was written, yet Settled answered %v", err)
		}
		loop.Wrote(notes.Syncing(t.Context(), key), pods, source.Add(pod("a")).ResourceVersion)
		if _, shown := pods.Get("ns", "a"); shown {
			t.Fatal("the cache does not lag: nothing is tested here")
		}
		if err := notes.Settled(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		if _, shown := pods.Get("ns", "a"); !shown {
			t.Fatal("settled, and the cache does not show the pod")
		}
	})
}

func TestSettledIsBehindWhileTheCacheLagsAndSettlesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, pods := laggingPods(3 * time.Second)
		defer background(t, pods)()
		synctest.Wait()
		var notes loop.Notes
		loop.Wrote(notes.Syncing(t.Context(), key), pods, source.Add(pod("a")).ResourceVersion)
		if err := notes.Settled(t.Context(), loop.Key{Name: "other"}); err != nil {
			t.Fatalf("another key answered %v", err)
		}
		for _, want := range []error{loop.ErrBehind, loop.ErrBehind, nil, nil} {
			if err := notes.Settled(t.Context(), key); !errors.Is(err, want) {
				t.Fatalf("Settled answered %v, want %v", err, want)
			}
			synctest.Wait()
			time.Sleep(250 * time.Millisecond)
		}
	})
}

func TestARemovalSettlesWhenTheObjectIsGoneReplacedOrBeingDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := informertest.NewSource(pod("gone"), pod("replaced"), pod("dying"))
		pods := informer.New(source, informer.Options[*corev1.Pod]{})
		defer background(t, pods)()
		synctest.Wait()
		dies := metav1.Now()
		for name, settle := range map[string]func(){
			"gone": func() { source.Delete(pod("gone")) },
			"replaced": func() {
				source.Delete(pod("replaced"))
				source.Add(pod("replaced", func(p *corev1.Pod) { p.UID = "new" }))
			},
			"dying": func() { source.Modify(pod("dying", func(p *corev1.Pod) { p.DeletionTimestamp = &dies })) },
		} {
			var notes loop.Notes
			loop.Removed(notes.Syncing(t.Context(), key), pods, pod(name))
			if err := notes.Settled(t.Context(), key); !errors.Is(err, loop.ErrBehind) {
				t.Errorf("%s: the cache shows the pod, yet Settled answered %v", name, err)
			}
			settle()
			synctest.Wait()
			if err := notes.Settled(t.Context(), key); err != nil {
				t.Errorf("%s: Settled answered %v", name, err)
			}
		}
	})
}

func TestAWriteThatNeverShowsIsForgottenInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := informer.New(informertest.NewSource[*corev1.Pod](), informer.Options[*corev1.Pod]{})
		defer background(t, pods)()
		synctest.Wait()
		var notes loop.Notes
		loop.Wrote(notes.Syncing(t.Context(), key), pods, "999999")
		if err := notes.Settled(t.Context(), key); !errors.Is(err, loop.ErrBehind) {
			t.Fatalf("Settled answered %v", err)
		}
		time.Sleep(5 * time.Minute)
		if err := notes.Settled(t.Context(), key); err != nil {
			t.Fatalf("after five minutes Settled still answers %v", err)
		}
	})
}

func TestOutsideOfASyncNothingIsNoted(t *testing.T) {
	var notes loop.Notes
	loop.Wrote(t.Context(), nil, "7")
	loop.Removed[*corev1.Pod](t.Context(), nil, nil)
	if err := notes.Settled(t.Context(), key); err != nil {
		t.Errorf("Settled answered %v", err)
	}
}

func TestAVersionThatCannotBeComparedIsNotWaitedFor(t *testing.T) {
	var notes loop.Notes
	loop.Wrote(notes.Syncing(t.Context(), key), nil, "")
	loop.Wrote(notes.Syncing(t.Context(), key), nil, "0")
	if err := notes.Settled(t.Context(), key); err != nil {
		t.Errorf("Settled answered %v", err)
	}
}

// This is what Wrote is for: a loop that creates objects that its cache does not show.
func TestALoopWithALaggingCacheCreatesNothingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, pods := laggingPods(2 * time.Second)
		created := 0
		stop := running(t, pods, &loop.Loop{
			Start:   []loop.Key{key},
			Watches: []loop.Watch{loop.Reads(pods)},
			Sync: func(ctx context.Context, key loop.Key) (loop.Result, error) {
				if pods.Len() < 3 {
					created++
					p := source.Add(pod(string(rune('a' + created))))
					loop.Wrote(ctx, pods, p.ResourceVersion)
				}
				return loop.Result{After: 10 * time.Millisecond}, nil
			},
		})
		time.Sleep(time.Minute)
		stop()
		if created != 3 {
			t.Errorf("created %d pods, want 3", created)
		}
	})
}

func TestSlowStartDoublesItsBatchesAndStopsAtTheFirstFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, maxBatch, tried atomic.Int32
		write := func(ctx context.Context, i int) error {
			tried.Add(1)
			maxBatch.Store(max(maxBatch.Load(), running.Add(1)))
			time.Sleep(time.Second)
			running.Add(-1)
			if i == 9 {
				panic("quota")
			}
			return nil
		}
		start := time.Now()
		done, err := loop.SlowStart(t.Context(), 9, write)
		if done != 9 || err != nil || time.Since(start) != 4*time.Second || maxBatch.Load() != 4 {
			t.Errorf("%d done in %v, at most %d at a time, with %v", done, time.Since(start), maxBatch.Load(), err)
		}
		tried.Store(0)
		done, err = loop.SlowStart(t.Context(), 1000, write)
		if done != 14 || err == nil || tried.Load() != 15 {
			t.Errorf("%d of %d tries done with %v, want 14 of 15 and an error", done, tried.Load(), err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if done, err := loop.SlowStart(ended, 1, write); done != 0 || !errors.Is(err, context.Canceled) {
			t.Errorf("after its end: %d done with %v", done, err)
		}
	})
}

func TestALongSlowStartDoesNotWaitForBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, maxBatch, tried atomic.Int32
		failing := int32(-1)
		write := func(_ context.Context, i int) error {
			tried.Add(1)
			maxBatch.Store(max(maxBatch.Load(), running.Add(1)))
			time.Sleep(time.Duration(1+i%3) * time.Second) // so that the writes do not end together
			running.Add(-1)
			if int32(i) == failing {
				return errors.New("quota")
			}
			return nil
		}
		if done, err := loop.SlowStart(t.Context(), 1000, write); done != 1000 || err != nil || maxBatch.Load() != 64 {
			t.Errorf("%d done, at most %d at a time, with %v", done, maxBatch.Load(), err)
		}
		tried.Store(0)
		failing = 100
		done, err := loop.SlowStart(t.Context(), 1000, write)
		if err == nil || done != int(tried.Load())-1 || tried.Load() > 300 {
			t.Errorf("%d of %d tries done with %v: it went on after a failure", done, tried.Load(), err)
		}
	})
}

func TestWritesOfKeysThatAreNeverSyncedAgainAreLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, pods := laggingPods(0)
		var notes loop.Notes
		note := func(day string) {
			for i := range 2000 {
				key := loop.Key{Namespace: day, Name: strconv.Itoa(i)}
				loop.Wrote(notes.Syncing(t.Context(), key), pods, "7")
			}
		}
		for _, day := range []string{"first", "second", "third", "fourth"} {
			note(day)
			time.Sleep(24 * time.Hour)
		}
		if n := notes.Pending(); n != 2000 {
			t.Errorf("the writes of %d keys are remembered, expected those of the last day", n)
		}
	})
}
