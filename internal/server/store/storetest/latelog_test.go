package storetest_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/memory"
	"github.com/millrace/millrace/internal/server/store/storetest"
)

func TestALateLogKeepsWhatAStoreGuarantees(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		l := storetest.NewLateLog(memory.New(memory.Options{}))
		l.Delay(time.Millisecond)
		return l
	})
}

func TestALateLogDeliversEachBatchByItsDelayLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLateLog(t)
		l.Delay(150 * time.Millisecond)
		seen := follow(t, l)
		write(t, l, "/a")
		time.Sleep(100 * time.Millisecond)
		write(t, l, "/b")
		for _, step := range []struct {
			after time.Duration
			seen  int
		}{{49 * time.Millisecond, 0}, {2 * time.Millisecond, 1}, {98 * time.Millisecond, 1}, {2 * time.Millisecond, 2}} {
			time.Sleep(step.after)
			synctest.Wait()
			if n := len(seen()); n != step.seen {
				t.Errorf("%d events have arrived, want %d", n, step.seen)
			}
		}
	})
}

func TestALateLogHoldsUntilItIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLateLog(t)
		seen := follow(t, l)
		release := l.Hold()
		write(t, l, "/a")
		time.Sleep(time.Hour)
		if n := len(seen()); n != 0 {
			t.Errorf("%d events have arrived in spite of the hold", n)
		}
		if _, err := l.Get(t.Context(), "/a", store.GetOptions{}); err != nil {
			t.Error("a read is held too:", err)
		}
		release()
		synctest.Wait()
		if n := len(seen()); n != 1 {
			t.Errorf("%d events have arrived after the hold", n)
		}
	})
}

func TestAnotherLateLogOnTheSameStoreIsNotLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := newLateLog(t)
		other := storetest.NewLateLog(one.Store)
		late, prompt := follow(t, one), follow(t, other)
		defer one.Hold()()
		write(t, one, "/a")
		synctest.Wait()
		if len(late()) != 0 || len(prompt()) != 1 {
			t.Errorf("the held one has %v, the other %v", late(), prompt())
		}
	})
}

func TestALateLogReturnsTheErrorOfItsSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLateLog(t)
		l.Delay(time.Second)
		full := errors.New("full")
		if err := l.Watch(t.Context(), "/", 0, func(store.Batch) error { return full }); err != full {
			t.Errorf("the watch ended with %v", err)
		}
	})
}

func newLateLog(t *testing.T) *storetest.LateLog {
	l := storetest.NewLateLog(memory.New(memory.Options{}))
	t.Cleanup(func() { l.Close() })
	return l
}

func write(t *testing.T, s store.Store, key string) {
	t.Helper()
	if _, err := s.Create(t.Context(), key, nil, 0); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// follow watches everything in a bubble, and returns a func that says what has arrived.
func follow(t *testing.T, s store.Store) func() []store.Event {
	var mu sync.Mutex // guards all
	var all []store.Event
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() {
		_ = s.Watch(ctx, "/", 0, func(b store.Batch) error {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, b.Events...)
			return nil
		})
	})
	t.Cleanup(func() { cancel(); watching.Wait() })
	synctest.Wait()
	return func() []store.Event {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}
