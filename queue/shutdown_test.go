package queue_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/queue"
)

func TestAfterShutDownReadyKeysAreHandedOutAndNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(queue.Options[string]{})
		q.Add("ready")
		q.AddAfter("delayed", time.Second)
		q.ShutDown()
		q.Add("late")
		q.AddAfter("late", time.Second)
		q.AddRateLimited("late")
		time.Sleep(time.Hour)
		wantKeys(t, drainKeys(t, q), "ready")
		if _, err := q.Get(t.Context()); !errors.Is(err, queue.ErrShutDown) {
			t.Fatalf("Get answered %v, want ErrShutDown", err)
		}
	})
}

func TestDrainWaitsForReadyAndRunningKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(queue.Options[string]{})
		ended := make(chan error, 1)
		worked := 0
		go func() {
			ended <- q.Run(t.Context(), 1, func(context.Context, string) error {
				time.Sleep(time.Second)
				worked++
				return nil
			})
		}()
		q.Add("a")
		synctest.Wait()
		q.Add("b")
		q.Add("a")
		if err := q.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil || worked != 3 {
			t.Fatalf("Run ended with %v after %d pieces of work, want nil after 3", err, worked)
		}
	})
}

func TestDrainGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(queue.Options[string]{})
		q.Add("a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := q.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Drain without a worker answered %v", err)
		}
	})
}

func TestRunReturnsOnlyWhenNoWorkerIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(queue.Options[string]{})
		q.Add("a")
		q.Add("b")
		ctx, cancel := context.WithCancel(t.Context())
		running := false
		ended := make(chan error, 1)
		go func() {
			ended <- q.Run(ctx, 1, func(ctx context.Context, _ string) error {
				running = true
				<-ctx.Done()
				time.Sleep(time.Minute)
				running = false
				return nil
			})
		}()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) || running {
			t.Fatalf("Run ended with %v, work still running: %v", err, running)
		}
		if q.Len() != 1 {
			t.Fatalf("%d keys left for another Run, want 1", q.Len())
		}
	})
}

func TestContainedAPanicIsAnErrorAndIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reported []error
		q := newQueue(queue.Options[string]{OnError: func(_ context.Context, _ string, err error) {
			reported = append(reported, err)
		}})
		boom := errors.New("boom")
		q.Add("a")
		calls := 0
		q.Run(t.Context(), 1, func(context.Context, string) error {
			if calls++; calls == 1 {
				panic(boom)
			}
			q.ShutDown()
			return nil
		})
		var p *queue.PanicError
		if calls != 2 || len(reported) != 1 || !errors.As(reported[0], &p) || !errors.Is(p, boom) {
			t.Fatalf("%d calls, reported %v", calls, reported)
		}
		if n := q.NumRequeues("a"); n != 0 {
			t.Fatalf("%d failures remembered after a success", n)
		}
	})
}

func TestContainedWorkThatEndsItsGoroutineIsRetriedByAsManyWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reported []error
		q := newQueue(queue.Options[string]{OnError: func(_ context.Context, _ string, err error) {
			reported = append(reported, err)
		}})
		q.Add("a")
		calls := 0
		q.Run(t.Context(), 1, func(context.Context, string) error {
			if calls++; calls < 3 {
				runtime.Goexit()
			}
			q.ShutDown()
			return nil
		})
		if calls != 3 || len(reported) != 2 || !errors.Is(reported[0], queue.ErrExit) {
			t.Fatalf("%d calls, reported %v", calls, reported)
		}
	})
}

func TestTerminalErrorsAreReportedAndNotRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reported := 0
		q := newQueue(queue.Options[string]{OnError: func(context.Context, string, error) { reported++ }})
		q.Add("a")
		calls := 0
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		q.Run(ctx, 1, func(context.Context, string) error {
			calls++
			return queue.Terminal(errors.New("hopeless"))
		})
		if calls != 1 || reported != 1 {
			t.Fatalf("%d calls and %d reports, want one of each", calls, reported)
		}
	})
	if queue.Terminal(nil) != nil {
		t.Fatal("Terminal(nil) is an error")
	}
}
