package queue_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/queue"
)

func newQueue(opts queue.Options[string]) *queue.Queue[string] { return queue.New(opts) }

// take gets a key that must be there without waiting.
func take(t *testing.T, q *queue.Queue[string]) string {
	t.Helper()
	if q.Len() == 0 {
		t.Fatal("the queue has nothing ready")
	}
	key, err := q.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func drainKeys(t *testing.T, q *queue.Queue[string]) (keys []string) {
	t.Helper()
	for q.Len() > 0 {
		key := take(t, q)
		q.Done(key)
		keys = append(keys, key)
	}
	return keys
}

func wantKeys(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("got keys %q, want %q", got, want)
	}
}

func TestUniqueKeysComeOutOnceInTheOrderTheyWentIn(t *testing.T) {
	q := newQueue(queue.Options[string]{})
	for _, key := range []string{"b", "a", "b", "c", "a"} {
		q.Add(key)
	}
	wantKeys(t, drainKeys(t, q), "b", "a", "c")
}

func TestReliableAKeyAddedWhileWorkedOnComesOutAgainAfterDone(t *testing.T) {
	q := newQueue(queue.Options[string]{})
	q.Add("a")
	take(t, q)
	q.Add("a")
	q.Add("a")
	if n := q.Len(); n != 0 {
		t.Fatalf("%d keys ready while their only key is worked on", n)
	}
	q.Done("a")
	wantKeys(t, drainKeys(t, q), "a")
}

func TestExclusiveNoKeyHasTwoWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(queue.Options[string]{})
		keys := []string{"a", "b", "c"}
		held := map[string]*atomic.Int32{"a": {}, "b": {}, "c": {}}
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() {
			q.Run(ctx, 8, func(_ context.Context, key string) error {
				if held[key].Add(1) != 1 {
					t.Errorf("%s is worked on twice at a time", key)
				}
				time.Sleep(3 * time.Millisecond)
				held[key].Add(-1)
				return nil
			})
		})
		for i := range 300 {
			q.Add(keys[i%3])
			time.Sleep(time.Millisecond)
		}
		cancel()
		run.Wait()
	})
}

func TestEarliestOfSeveralDelaysCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(queue.Options[string]{})
		q.AddAfter("a", time.Minute)
		q.AddAfter("a", time.Second)
		q.AddAfter("a", time.Hour)
		q.AddAfter("b", 2*time.Second)
		time.Sleep(time.Second - 1)
		synctest.Wait()
		wantKeys(t, drainKeys(t, q))
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		wantKeys(t, drainKeys(t, q), "a")
		time.Sleep(time.Second)
		synctest.Wait()
		wantKeys(t, drainKeys(t, q), "b")
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		wantKeys(t, drainKeys(t, q))
	})
}

func TestAddingAKeyDoesNotCancelItsDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(queue.Options[string]{})
		q.AddAfter("a", time.Minute)
		q.Add("a")
		wantKeys(t, drainKeys(t, q), "a")
		time.Sleep(time.Minute)
		synctest.Wait()
		wantKeys(t, drainKeys(t, q), "a")
	})
}

func TestADelayOfCenturiesDoesNotOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(queue.Options[string]{})
		time.Sleep(time.Second)
		q.AddAfter("a", 1<<63-1)
		synctest.Wait()
		wantKeys(t, drainKeys(t, q))
		q.ShutDown()
	})
}

func TestRetriesOfAKeyDoubleTheirDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(queue.Options[string]{BaseDelay: time.Second, MaxDelay: 5 * time.Second})
		for i, want := range []time.Duration{1, 2, 4, 5, 5} {
			start := time.Now()
			q.AddRateLimited("a")
			key, _ := q.Get(t.Context())
			if got := time.Since(start); got != want*time.Second {
				t.Fatalf("retry %d came after %v, want %v s", i, got, want)
			}
			if n := q.NumRequeues(key); n != i+1 {
				t.Fatalf("%d failures counted, want %d", n, i+1)
			}
			q.Done(key)
		}
		q.Forget("a")
		if n := q.NumRequeues("a"); n != 0 {
			t.Fatalf("%d failures remembered after Forget", n)
		}
	})
}

func TestTheBucketLimitsRetriesOverAllKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(queue.Options[string]{BaseDelay: time.Nanosecond, RetryRate: 1, RetryBurst: 2})
		start := time.Now()
		for _, key := range []string{"a", "b", "c", "d"} {
			q.AddRateLimited(key)
		}
		var at []time.Duration
		for range 4 {
			key, _ := q.Get(t.Context())
			at = append(at, time.Since(start).Round(time.Second))
			q.Done(key)
		}
		if want := []time.Duration{0, 0, time.Second, 2 * time.Second}; !slices.Equal(at, want) {
			t.Fatalf("retries came after %v, want %v", at, want)
		}
	})
}

func TestRepeatedRetriesOfAWaitingKeyUseOneToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(queue.Options[string]{BaseDelay: time.Millisecond, RetryRate: 0.01, RetryBurst: 2})
		for range 5 {
			q.AddRateLimited("a")
		}
		q.AddRateLimited("b")
		time.Sleep(time.Second)
		synctest.Wait()
		wantKeys(t, drainKeys(t, q), "a", "b")
		q.ShutDown()
	})
}

func TestHigherPriorityOvertakesAndTheHighestRequestCounts(t *testing.T) {
	q := newQueue(queue.Options[string]{Aging: time.Hour})
	q.AddPriority("low", -5)
	q.Add("normal")
	q.AddPriority("high", 5)
	q.AddPriority("raised", -5)
	q.AddPriority("raised", 7)
	q.AddPriority("raised", 1)
	wantKeys(t, drainKeys(t, q), "raised", "high", "normal", "low")
}

func TestFairALowPriorityKeyIsNotStarvedByAStreamOfHighOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(queue.Options[string]{Aging: time.Second})
		q.AddPriority("low", -10)
		q.Add("high")
		for waited := 0; ; waited++ {
			key := take(t, q)
			q.Done(key)
			if key == "low" {
				if waited < 10 || waited > 11 {
					t.Fatalf("ten points of priority were worth %d s of waiting", waited)
				}
				return
			}
			time.Sleep(time.Second)
			q.Add("high")
		}
	})
}

func TestARetryKeepsItsPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(queue.Options[string]{Aging: time.Hour})
		q.AddPriority("urgent", 3)
		q.AddRateLimited(take(t, q))
		q.Done("urgent")
		q.Add("normal")
		time.Sleep(time.Second)
		synctest.Wait()
		wantKeys(t, drainKeys(t, q), "urgent", "normal")
	})
}

func TestGetEndsWithItsContextAndLosesNoKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(queue.Options[string]{})
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		var gave error
		var waiting sync.WaitGroup
		waiting.Go(func() { _, gave = q.Get(ctx) })
		var got string
		waiting.Go(func() { got, _ = q.Get(t.Context()) })
		synctest.Wait()
		cancel(why)
		q.Add("a")
		waiting.Wait()
		if !errors.Is(gave, why) || got != "a" {
			t.Fatalf("the ended Get answered %v, the other got %q", gave, got)
		}
	})
}

func TestDoneOfAKeyThatIsNotWorkedOnChangesNothing(t *testing.T) {
	q := newQueue(queue.Options[string]{})
	q.Add("a")
	q.Done("a")
	q.Done("b")
	wantKeys(t, drainKeys(t, q), "a")
}
