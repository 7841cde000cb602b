package fairness

import (
	"slices"
	"time"
)

// queue holds requests of some flows.
type queue struct {
	waiting      []*waiter
	waitingSeats int
	executing    int // requests
	seats        int // that these have
	// next is when the next request begins, in the virtual time of the level.
	next float64
}

// waiter is a request that waits for seats.
type waiter struct {
	schema  *Schema
	flow    flow
	work    Work
	queue   *queue
	arrived float64 // in virtual time
	since   time.Time
	decided chan struct{} // closed when it may go on
	begun   bool          // guarded by the level's lock
	detail  Detail
}

// active tells whether the queue has part in the division.
func (q *queue) active() bool { return len(q.waiting) > 0 || q.executing > 0 }

// load is what a new request would have before it.
func (q *queue) load() int { return q.waitingSeats + q.seats }

// first is the request that is next; nil if there is none. Those of saturated flows that compute are passed over.
func (q *queue) first(saturated []flow) *waiter {
	for _, w := range q.waiting {
		if !w.work.Computes || !slices.Contains(saturated, w.flow) {
			return w
		}
	}
	return nil
}

func (q *queue) remove(w *waiter) bool {
	for i, other := range q.waiting {
		if other == w {
			copy(q.waiting[i:], q.waiting[i+1:])
			q.waiting[len(q.waiting)-1] = nil
			q.waiting = q.waiting[:len(q.waiting)-1]
			q.waitingSeats -= w.work.most()
			return true
		}
	}
	return false
}

// deal gives a flow its hand of queues, as from a deck of cards, and returns the one among them with the least before
// it. The same flow always gets the same hand.
func deal(hash uint64, queues []*queue, hand int) int {
	var taken [maxHand]int
	best := -1
	hand = min(hand, maxHand, len(queues))
	for i := range hand {
		left := uint64(len(queues) - i)
		card := int(hash % left)
		hash /= left
		at := i
		for j := range i { // taken is sorted: count those before
			if card >= taken[j] {
				card++
			} else {
				at = j
				break
			}
		}
		copy(taken[at+1:i+1], taken[at:i])
		taken[at] = card
		if best < 0 || queues[card].load() < queues[best].load() {
			best = card
		}
	}
	return best
}

const maxHand = 16
