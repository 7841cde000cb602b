// Package crew keeps goroutines that are used again: a task of any depth makes the stack of a new one grow several times, which
// can cost a twentieth of all that the task does.
package crew

import "sync"

// Task is what one of a crew does.
type Task interface{ Do() }

// Crew are goroutines that wait for tasks. The zero value is ready.
type Crew struct {
	mu      sync.Mutex
	waiting []chan Task // the last one to come goes first: its stack has shrunk least; guarded by mu
	closed  bool        // guarded by mu
	working sync.WaitGroup
}

// mostWaiting is how many stay when there is nothing to do.
const mostWaiting = 64

// Start lets somebody do a task. After Close only tasks may start others.
func (c *Crew) Start(t Task) {
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

// work does one task after the other.
func (c *Crew) work(t Task) {
	for next := make(chan Task, 1); t != nil; t = <-next {
		t.Do()
		if !c.wait(next) {
			return
		}
	}
}

// wait lets tasks come through a channel, if there is need.
func (c *Crew) wait(next chan Task) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.waiting) >= mostWaiting {
		return false
	}
	c.waiting = append(c.waiting, next)
	return true
}

// Close sends all home, and returns when the last task has been done.
func (c *Crew) Close() {
	c.mu.Lock()
	c.closed = true
	for _, next := range c.waiting {
		close(next)
	}
	c.waiting = nil
	c.mu.Unlock()
	c.working.Wait()
}
