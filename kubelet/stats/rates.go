package stats

import (
	"sync"
	"time"
)

// Rates turn totals of processor time into how much is used now: since the question before.
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
	// shortest is the least time between two samples that says anything, longest the most that is still "now".
	shortest = time.Second
	longest  = 5 * time.Minute
)

// CPU is processor time as far as it was used at a time, by whatever has the id.
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

// Keep forgets all but those that are.
func (r *Rates) Keep(alive func(id string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.seen {
		if !alive(id) {
			delete(r.seen, id)
		}
	}
}
