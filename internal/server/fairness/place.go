package fairness

import "time"

// Place is what a request has while it is served. Leave it once.
type Place struct {
	level  *Level
	queue  *queue
	schema *Schema
	work   Work
	since  time.Time
	turns  *turns // nil if the request took none
	turn   turn
	others bool // there are other flows
	behind int  // how many were waiting in its queue when it came
}

// crowd is how many requests of a flow wait if it asks for much more than its share: clients that work normally do not have so many.
const crowd = 16

// crowding tells whether the request is one of a crowd, and there are other flows.
func (p Place) crowding() bool { return p.others && p.behind >= crowd }

// Apart tells whether the request is to be served by Do, so that others do not wait for a processor behind it: if it computes long, or crowds.
func (p Place) Apart() bool { return p.others && p.work.Long || p.crowding() }

// Do serves the request on a thread of its own. One of a crowd leaves the processor to others for a moment before that. As a crowd has few turns at a
// time while there are others, its requests and answers then come evenly, and not in waves that others wait behind.
func (p Place) Do(serve func()) {
	if !p.crowding() {
		p.turns.lanes.do(serve)
		return
	}
	p.turns.lanes.do(func() {
		p.turns.rest()
		serve()
	})
}

// Leave gives the seats back; those that a change keeps for the ones who watch come back later.
func (p Place) Leave() {
	if p.level == nil {
		return
	}
	if p.turns != nil {
		p.turns.give(p.turn)
	}
	now := time.Now()
	took := now.Sub(p.since)
	p.schema.served(took, p.work)
	correction := p.work.cost(took) - p.work.cost(guess)
	if p.work.After <= 0 || p.work.Final == 0 {
		p.level.leave(p.queue, p.work.most(), true, correction, now)
		return
	}
	if rest := p.work.most() - p.work.Final; rest > 0 {
		p.level.leave(p.queue, rest, false, 0, now)
	}
	time.AfterFunc(p.work.After, func() { p.level.leave(p.queue, p.work.Final, true, correction, time.Now()) })
}

// Refusal is the error of a request that got no place.
type Refusal struct {
	// Reason is one of concurrency-limit, queue-full, time-out and cancelled.
	Reason string
	// RetryAfter is in seconds.
	RetryAfter int
}

// Error implements error.
func (r *Refusal) Error() string { return "too many requests: " + r.Reason }
