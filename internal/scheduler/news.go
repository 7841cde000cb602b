package scheduler

import (
	"sync"
	"time"
)

// news are changes of pods and nodes that the state does not have yet. The informers' handlers leave them here and go on, and who locks the state takes
// them in first. A handler that waited for the lock with each would fall behind: the loop, which always has something to decide, takes the lock again
// before anybody wakes up. It would decide on pods while more important ones wait to be heard of.
type news struct {
	mu      sync.Mutex
	waiting []func() (event string) // guarded by mu
	spare   []func() (event string) // guarded by mu: memory for the next ones
}

// mostNews bounds what waits: more is taken in by who brings it.
const mostNews = 1024

// tell leaves a change, which is made with the lock held. It returns kube-scheduler's name of the event, or "" if that has none.
func (t *term) tell(change func() (event string)) {
	t.news.mu.Lock()
	t.news.waiting = append(t.news.waiting, change)
	many := len(t.news.waiting) >= mostNews
	t.news.mu.Unlock()
	if many {
		t.lock()
		t.mu.Unlock()
	}
}

// lock locks the state, and brings it up to date.
func (t *term) lock() {
	t.mu.Lock()
	t.news.mu.Lock()
	all := t.news.waiting
	t.news.waiting, t.news.spare = t.news.spare, nil
	t.news.mu.Unlock()
	if len(all) == 0 {
		return
	}
	for _, change := range all {
		t.handle(change)
	}
	t.reportSizes()
	clear(all)
	t.news.mu.Lock()
	t.news.spare = all[:0]
	t.news.mu.Unlock()
}

// handle handles an event, and measures that.
func (t *term) handle(change func() (event string)) {
	if !t.measured {
		change()
		return
	}
	began := time.Now()
	if event := change(); event != "" {
		t.options.Metrics.Handled(event, time.Since(began))
	}
}
