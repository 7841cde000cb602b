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
