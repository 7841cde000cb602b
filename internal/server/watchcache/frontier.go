package watchcache

import (
	"container/heap"
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/millrace/millrace/internal/server/store"
)

// frontier is a growing revision, and the goroutines that wait for it. An advance wakes only those whose revision has
// been reached.
type frontier struct {
	rev atomic.Int64

	mu      sync.Mutex
	waiters waiters
}

type waiter struct {
	rev   store.Revision
	done  chan struct{}
	err   error // set before done is closed
	index int   // in the heap; -1 once it has left
}

func (f *frontier) load() store.Revision { return store.Revision(f.rev.Load()) }

// set moves the frontier forwards.
func (f *frontier) set(rev store.Revision) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rev.Store(int64(rev))
	for len(f.waiters) > 0 && f.waiters[0].rev <= rev {
		close(heap.Pop(&f.waiters).(*waiter).done)
	}
}

// back moves the frontier to an older revision. All who wait fail: what they wait for may never come.
func (f *frontier) back(rev store.Revision) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rev.Store(int64(rev))
	for _, w := range f.waiters {
		w.index, w.err = -1, ErrReplaced
		close(w.done)
	}
	f.waiters = nil
}

func (f *frontier) wait(ctx context.Context, rev store.Revision) error {
	if f.load() >= rev {
		return nil
	}
	f.mu.Lock()
	if f.load() >= rev {
		f.mu.Unlock()
		return nil
	}
	w := &waiter{rev: rev, done: make(chan struct{})}
	heap.Push(&f.waiters, w)
	f.mu.Unlock()
	select {
	case <-w.done:
		if w.err != nil {
			return fmt.Errorf("wait for revision %d: %w", rev, w.err)
		}
		return nil
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if w.index >= 0 {
		heap.Remove(&f.waiters, w.index)
	}
	return fmt.Errorf("wait for revision %d, the watch cache is at %d: %w", rev, f.load(), context.Cause(ctx))
}

// waiters is a heap by revision.
type waiters []*waiter

func (ws waiters) Len() int           { return len(ws) }
func (ws waiters) Less(i, j int) bool { return ws[i].rev < ws[j].rev }
func (ws waiters) Swap(i, j int) {
	ws[i], ws[j] = ws[j], ws[i]
	ws[i].index, ws[j].index = i, j
}

func (ws *waiters) Push(x any) {
	w := x.(*waiter)
	w.index = len(*ws)
	*ws = append(*ws, w)
}

func (ws *waiters) Pop() any {
	last := len(*ws) - 1
	w := (*ws)[last]
	(*ws)[last] = nil
	*ws = (*ws)[:last]
	w.index = -1
	return w
}
