package workers_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/internal/workers"
)

type task func()

func (t task) Do() { t() }

func TestCloseWaitsForAllTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c workers.Pool
		var done atomic.Int32
		for range 200 {
			c.Start(task(func() { // some tasks start others
				if done.Add(1)%2 == 0 {
					c.Start(task(func() { done.Add(1) }))
				}
			}))
		}
		c.Close()
		if n := done.Load(); n < 200 {
			t.Errorf("%d were done", n)
		}
	}) // it fails if a goroutine is still running
}

func TestIdleGoroutinesAreReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c workers.Pool
		defer c.Close()
		for range 3 {
			one := make(chan struct{})
			c.Start(task(func() { <-one }))
			synctest.Wait()
			close(one)
			synctest.Wait()
		}
		if n := testing.AllocsPerRun(10, func() { c.Start(task(func() {})); synctest.Wait() }); n > 2 {
			t.Errorf("a task costs %v allocations", n)
		}
	})
}
