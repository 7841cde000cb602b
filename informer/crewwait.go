package informer

import "time"

// wait returns when there may be something to do. It reports false when the goroutine has no more to do as the crew's.
func (c *crew[T]) wait(shift uint64) bool {
	news, roused := c.owner.news.wait(), c.roused.wait()
	c.mu.Lock()
	if c.shift != shift {
		c.mu.Unlock()
		return false
	}
	if len(c.members) == 0 {
		c.working = false
		c.mu.Unlock()
		return false
	}
	var due time.Time
	for _, r := range c.members {
		if r.waiting() {
			c.mu.Unlock()
			return true
		}
		if !r.nextResync.IsZero() && (due.IsZero() || r.nextResync.Before(due)) {
			due = r.nextResync
		}
	}
	c.mu.Unlock()
	resync, stop := alarm(due)
	defer stop()
	select {
	case <-news:
	case <-roused:
	case <-resync:
	}
	return true
}

// alarm returns a channel that receives at a time; never if that is zero.
func alarm(at time.Time) (<-chan time.Time, func() bool) {
	if at.IsZero() {
		return nil, func() bool { return false }
	}
	timer := time.NewTimer(time.Until(at))
	return timer.C, timer.Stop
}
