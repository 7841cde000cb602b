package scheduler

import (
	"sync"
	"time"
)

// news are changes of pods and nodes that the state does not have yet. The informers' handlers leave them here and go
// on, and who locks the state takes them in first. A handler that waited for the lock with each would fall behind: the
// loop, which always has something to decide, takes the lock again before anybody wakes up. It would decide on pods
// while more important ones wait to be heard of.
type news struct {
	mu      sync.Mutex
	waiting []func() (event string) // guarded by mu
	spare   []func() (event string) // guarded by mu: memory for the next ones
}

// mostNews bounds what waits: more is taken in by who brings it.
const mostNews = 1024

// tell leaves a change, which is made with the lock held. It returns kube-scheduler's name of the event, or "" if that
// has none.
func (k *knowledge) tell(change func() (event string)) {
	k.news.mu.Lock()
	k.news.waiting = append(k.news.waiting, change)
	many := len(k.news.waiting) >= mostNews
	k.news.mu.Unlock()
	if many {
		k.lock()
		k.mu.Unlock()
	}
}

// lock locks the state, and brings it up to date.
func (k *knowledge) lock() {
	k.mu.Lock()
	k.news.mu.Lock()
	all := k.news.waiting
	k.news.waiting, k.news.spare = k.news.spare, nil
	k.news.mu.Unlock()
	if len(all) == 0 {
		return
	}
	for _, change := range all {
		k.handle(change)
	}
	k.reportSizes()
	clear(all)
	k.news.mu.Lock()
	k.news.spare = all[:0]
	k.news.mu.Unlock()
}

// handle handles an event, and measures that.
func (k *knowledge) handle(change func() (event string)) {
	if !k.measured {
		change()
		return
	}
	began := time.Now()
	if event := change(); event != "" {
		k.options.Metrics.Handled(event, time.Since(began))
	}
}
