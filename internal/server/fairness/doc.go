// Package fairness divides the seats of a server among those who ask, as Kubernetes' API Priority and Fairness does: by
// FlowSchemas, which tell requests apart, and PriorityLevelConfigurations, which have seats and queues.
//
// What is guaranteed:
//
//   - A request belongs to the first FlowSchema that matches it. Within a level, requests with the same FlowSchema and
//     distinguisher are one flow, and go to the shortest of a few queues that are dealt to the flow.
//   - A level serves no more at a time than its seats. What waits is served in the order of fair queuing: each queue
//     gets the same share of the seats, counted in seats times seconds, however much it asks for.
//   - Nobody waits for longer than the bound; a request that waits in vain is refused, and has not been served in part.
//   - Seats that a level does not need are lent to others, up to what its configuration lets go; that is looked at
//     every ten seconds.
//   - Of the requests that only compute, a few for each processor run at a time, and flows take turns: a request of a
//     flow with few waits for the end of some others, and not for all that have seats. While there are others, a flow
//     has one processor less than there are.
//   - Requests that compute do not hold more seats than are of use to their flow: others of it wait for a seat while
//     enough wait for a turn.
//   - A request that finds a free seat takes three short locks, and allocates nothing.
//
// Requests of exempt levels never wait. A request's size is an estimate: lists are wide by what they read, changes hold
// their seats on for a while when there are many who watch, and a watch holds its seat until it has begun.
package fairness

import "time"

// Work is the size of a request.
type Work struct {
	// Seats are taken while the request is served, Final for After once it has been.
	Seats, Final int
	After        time.Duration
	// Server is the API group that another server answers, which the request is for. It has seats and queues of its own
	// in each level, so that requests to a server that hangs keep no others waiting.
	Server string
	// Computes says that the request seldom waits for anything but a processor.
	Computes bool
}

func (w Work) most() int { return max(w.Seats, w.Final, 1) }

// cost is what a request counts for against its queue, in seats times seconds, if it is served for d.
func (w Work) cost(d time.Duration) float64 {
	return float64(max(w.Seats, 1))*d.Seconds() + float64(w.Final)*w.After.Seconds()
}

// guess is how long a request takes to be served, until it is known.
const guess = 3 * time.Millisecond
