package h2

import "sync"

// crew are goroutines that are used again: a handler of any depth makes the stack of a new one grow several times.
type crew struct {
	mu        sync.Mutex
	waiting   []chan job // the last one to come goes first, while its stack is warm; guarded by mu
	dismissed bool       // guarded by mu
	working   sync.WaitGroup
}

// job is what one of the crew does.
type job interface{ do() }

// mostWaiting is how many stay when there is nothing to do.
const mostWaiting = 64

// start lets somebody do a job.
func (c *crew) start(j job) {
	c.mu.Lock()
	if n := len(c.waiting); n > 0 {
		first := c.waiting[n-1]
		c.waiting[n-1] = nil
		c.waiting = c.waiting[:n-1]
		c.mu.Unlock()
		first <- j
		return
	}
	c.mu.Unlock()
	c.working.Go(func() { c.work(j) })
}

// work does one job after the other.
func (c *crew) work(j job) {
	next := make(chan job, 1)
	for {
		j.do()
		if !c.wait(next) {
			return
		}
		var ok bool
		if j, ok = <-next; !ok {
			return
		}
	}
}

// wait lets jobs come through a channel, if there is need.
func (c *crew) wait(next chan job) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dismissed || len(c.waiting) >= mostWaiting {
		return false
	}
	c.waiting = append(c.waiting, next)
	return true
}

// dismiss sends all home and returns when they have gone. No job may be started after it.
func (c *crew) dismiss() {
	c.mu.Lock()
	c.dismissed = true
	for _, next := range c.waiting {
		close(next)
	}
	c.waiting = nil
	c.mu.Unlock()
	c.working.Wait()
}
