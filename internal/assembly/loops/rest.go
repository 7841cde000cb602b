package loops

import (
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/queue"
)

// queues remembers the queues of all loops.
type queues struct {
	queue.Metrics

	mu  sync.Mutex // guards all
	all map[string]func() queue.State
}

// Queue implements queue.Metrics.
func (q *queues) Queue(name string, state func() queue.State) queue.Counters {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.all[name] = state
	return q.Metrics.Queue(name, state)
}

// ticking are the loops that look at something now and then, in which nothing is due: whether nodes are there, and how
// busy pods are.
var ticking = []string{"node-lifecycle-controller", "horizontal-pod-autoscaler-controller"}

// Rest reports whether no loop has a key to work on, and when the first will have one although nothing changes: the next
// time of a CronJob, the end of a finished Job. That is the zero time if none will.
func (p *Loops) Rest() (rests bool, due time.Time) {
	rests = true
	if p.queues == nil {
		return rests, due
	}
	p.queues.mu.Lock()
	defer p.queues.mu.Unlock()
	now := time.Now()
	for name, state := range p.queues.all {
		s := state()
		rests = rests && s.Ready == 0 && s.Working == 0
		if s.Delayed == 0 || slices.Contains(ticking, name) {
			continue
		}
		if next := now.Add(s.Next); due.IsZero() || next.Before(due) {
			due = next
		}
	}
	return rests, due
}
