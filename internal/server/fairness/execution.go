package fairness

import "time"

// Execution is a request that is being served: it holds seats of its level and, if it computes, a turn. End it once.
type Execution struct {
	level  *Level
	queue  *queue
	schema *Schema
	work   Work
	since  time.Time
	waited time.Duration
	turns  *turns // nil if the request took none
	turn   turnID
}

// Waited is how long the request waited for its seats.
func (e Execution) Waited() time.Duration { return e.waited }

// End gives the turn and the seats back. Seats that a change keeps for the watches that it wakes come back later.
func (e Execution) End() {
	if e.level == nil {
		return
	}
	if e.turns != nil {
		e.turns.give(e.turn)
	}
	now := time.Now()
	took := now.Sub(e.since)
	e.schema.served(took, e.work)
	correction := e.work.cost(took) - e.work.cost(guess)
	if e.work.After <= 0 || e.work.Final == 0 {
		e.level.leave(e.queue, e.work.most(), true, correction, now)
		return
	}
	if rest := e.work.most() - e.work.Final; rest > 0 {
		e.level.leave(e.queue, rest, false, 0, now)
	}
	time.AfterFunc(e.work.After, func() { e.level.leave(e.queue, e.work.Final, true, correction, time.Now()) })
}

// Refusal is the error of a request that was not let in.
type Refusal struct {
	// Reason is one of concurrency-limit, queue-full, time-out and cancelled.
	Reason string
	// RetryAfter is in seconds.
	RetryAfter int
}

// Error implements error.
func (r *Refusal) Error() string { return "too many requests: " + r.Reason }
