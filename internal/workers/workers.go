// Package workers reuses goroutines: on a new goroutine a deep task makes the stack grow several times, which can take
// a twentieth of the task's time.
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
func (p *Pool) Start(t Task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.waiting); n > 0 {
		p.waiting[n-1] <- t
		p.waiting[n-1] = nil
		p.waiting = p.waiting[:n-1]
		return
	}
	p.working.Go(func() { p.work(t) })
}

// work runs one task after the other.
func (p *Pool) work(t Task) {
	for next := make(chan Task, 1); t != nil; t = <-next {
		t.Do()
		if !p.wait(next) {
			return
		}
	}
}

// wait makes the goroutine available for another task; false if there are enough idle ones.
func (p *Pool) wait(next chan Task) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.waiting) >= maxIdle {
		return false
	}
	p.waiting = append(p.waiting, next)
	return true
}

// Close ends the idle goroutines, and waits until the last task is done.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	for _, next := range p.waiting {
		close(next)
	}
	p.waiting = nil
	p.mu.Unlock()
	p.working.Wait()
}
