package queue_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/queue"
)

func TestAQueueAtRestKeepsTwoOfItsWorkers(t *testing.T) {
	q := queue.New(queue.Options[int]{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	before := runtime.NumGoroutine()
	var busy sync.WaitGroup
	busy.Add(50)
	goOn := make(chan struct{})
	go func() {
		ended <- q.Run(ctx, 50, func(context.Context, int) error {
			busy.Done()
			<-goOn
			return nil
		})
	}()
	for i := range 50 {
		q.Add(i)
	}
	busy.Wait() // all workers have a key at the same time
	close(goOn)
	for runtime.NumGoroutine() > before+4 { // Run, its caller's, and two workers
		runtime.Gosched()
	}
	cancel()
	<-ended
}

func TestDelayedKeysAreWorkedOnAfterAnotherRunHasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options[int]{})
		done := make(chan int, 1)
		run := func(length time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), length)
			defer cancel()
			_ = q.Run(ctx, 1, func(_ context.Context, key int) error {
				done <- key
				return nil
			})
		}
		q.AddAfter(1, time.Minute)
		run(time.Second)
		time.Sleep(time.Hour)
		if q.Len() != 0 {
			t.Error("a key became ready while nobody worked")
		}
		run(time.Second)
		if len(done) != 1 {
			t.Error("a delayed key was lost")
		}
	})
}
