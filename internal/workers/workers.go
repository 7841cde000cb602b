// Package workers reuses goroutines: on a new goroutine a deep task makes the stack grow several times, which can take a twentieth of the task's time.
package workers

import "sync"

// Task is what a goroutine of a pool runs.
type Task interface{ Do() }

// Pool is a set of goroutines that wait for tasks. The zero value is ready to use.
type Pool struct {
	mu      sync.Mutex
	waiting []chan Task // the most recent is used first: its stack has shrunk least; guarded by mu
	closed  bool        // guarded by mu
	working sync.WaitGroup
}

// maxIdle is how many idle goroutines are kept.
const maxIdle = 64

// Start runs a task on a goroutine. After Close only tasks may start other tasks.
func (c *Pool) Start(t Task) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.waiting); n > 0 {
		c.waiting[n-1] <- t
		c.waiting[n-1] = nil
		c.waiting = c.waiting[:n-1]
		return
	}
	c.working.Go(func() { c.work(t) })
}

// work runs one task after the other.
func (c *Pool) work(t Task) {
	for next := make(chan Task, 1); t != nil; t = <-next {
		t.Do()
		if !c.wait(next) {
			return
		}
	}
}

// wait makes the goroutine available for another task; false if there are enough idle ones.
func (c *Pool) wait(next chan Task) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.waiting) >= maxIdle {
		return false
	}
	c.waiting = append(c.waiting, next)
	return true
}

// Close ends the idle goroutines, and waits until the last task is done.
func (c *Pool) Close() {
	c.mu.Lock()
	c.closed = true
	for _, next := range c.waiting {
		close(next)
	}
	c.waiting = nil
	c.mu.Unlock()
	c.working.Wait()
}
