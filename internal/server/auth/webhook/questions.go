package webhook

import "sync"

// questions bounds how many are asked at the same time, of all clients and of each address. Otherwise a client with
// many invalid tokens has others wait for a webhook that is slow.
type questions struct {
	all, each int // the bounds

	mu      sync.Mutex // guards the rest
	asked   int
	askedBy map[string]int // by address
}

// begin reports whether one more may be asked for a client. Then end must be called. Clients without an address, such
// as those of a TokenReview, have no bound of their own.
func (q *questions) begin(address string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.asked >= q.all || address != "" && q.askedBy[address] >= q.each {
		return false
	}
	if q.askedBy == nil {
		q.askedBy = map[string]int{}
	}
	q.asked++
	q.askedBy[address]++
	return true
}

func (q *questions) end(address string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asked--
	if q.askedBy[address]--; q.askedBy[address] == 0 {
		delete(q.askedBy, address)
	}
}
