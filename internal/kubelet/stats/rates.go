package stats

import (
	"sync"
	"time"
)

// Rates turn totals of CPU time into current usage: the average since the previous sample.
type Rates struct {
	mu   sync.Mutex // guards seen
	seen map[string]sample
}

type sample struct {
	at    time.Time
	total uint64
	rate  *uint64
}

const (
	// shortest is the shortest useful time between two samples. longest is the longest one that still counts as
	// current.
	shortest = time.Second
	longest  = 5 * time.Minute
)

// CPU returns the total and the current usage for an ID.
func (r *Rates) CPU(id string, at time.Time, total uint64) *CPU {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen = map[string]sample{}
	}
	before, ok := r.seen[id]
	passed := at.Sub(before.at)
	switch {
	case ok && passed < shortest && total >= before.total:
		return &CPU{Time: moment(at), NanoCores: before.rate, Total: total}
	case ok && passed <= longest && total >= before.total:
		rate := uint64(float64(total-before.total) / passed.Seconds())
		before.rate = &rate
	default:
		before.rate = nil
	}
	r.seen[id] = sample{at, total, before.rate}
	return &CPU{Time: moment(at), NanoCores: before.rate, Total: total}
}

// Keep drops the samples of all IDs that are gone.
func (r *Rates) Keep(alive func(id string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.seen {
		if !alive(id) {
			delete(r.seen, id)
		}
	}
}
