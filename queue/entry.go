package queue

import "github.com/millrace/millrace/cause"

// entry is the state of one key. It exists while the key is ready, delayed, worked on, or has failures.
type entry[K comparable] struct {
	key      K
	failures int
	failing  int64 // when the first of the failures was

	ready   int // position in the line: in its run or its heap
	inRun   bool
	delayed int // position in the delayed heap
	working int // position in the list of running entries
	again   bool

	priority int   // of the pending request: ready or again
	after    int   // of the delayed request
	taken    int   // of the request being worked on; a retry keeps it
	since    int64 // when the pending request was made
	started  int64 // when a worker took it

	why   *cause.Cause // of the pending request; nil: nobody has said
	doing *cause.Cause // of the request being worked on
	then  *cause.Cause // of the delayed request, beside why
}

// reasons returns the cause of the pending request, to which something is added.
func (e *entry[K]) reasons() *cause.Cause {
	if e.why == nil {
		e.why = new(cause.Cause)
	}
	return e.why
}

// because adds an older cause to the pending request.
func (e *entry[K]) because(older *cause.Cause) {
	if older == nil {
		return
	}
	all := older.Clone()
	if e.why != nil {
		all.Merge(e.why)
	}
	e.why = all
}

// later returns the causes of a delayed request: those of the work in progress, and how the request came about.
func (e *entry[K]) later(how cause.Cause) *cause.Cause {
	if e.doing == nil {
		return &how
	}
	by := e.doing.Clone()
	by.Timer, by.Retry = how.Timer || by.Timer && how.Retry, how.Retry // a retry of what a timer began
	return by
}

// take makes the causes of the pending request those of the work. Work that is done again has the causes of the attempt
// that failed, too, even if another change comes before the time of the retry.
func (e *entry[K]) take() {
	if e.then != nil && e.then.Retry && e.delayed != absent {
		e.because(e.then)
		e.then = &cause.Cause{Retry: true}
	}
	e.doing, e.why = e.why, nil
}

func (e *entry[K]) pending() bool { return e.ready != absent || e.again }

// entryLocked returns the entry of key, and makes it if needed.
func (q *Queue[K]) entryLocked(key K) *entry[K] {
	if e := q.entries[key]; e != nil {
		return e
	}
	var e *entry[K]
	if n := len(q.spare); n > 0 {
		e, q.spare = q.spare[n-1], q.spare[:n-1]
	} else {
		e = new(entry[K])
	}
	*e = entry[K]{key: key, ready: absent, delayed: absent, working: absent}
	q.entries[key] = e
	return e
}

// releaseLocked removes an entry without any state.
func (q *Queue[K]) releaseLocked(e *entry[K]) {
	if e.pending() || e.delayed != absent || e.working != absent || e.failures > 0 {
		return
	}
	delete(q.entries, e.key)
	if len(q.spare) < maxSpare {
		*e = entry[K]{}
		q.spare = append(q.spare, e)
	}
}

// maxSpare limits the entries that are kept for reuse: enough that a queue in its steady state allocates nothing, and
// too few to matter after a burst.
const maxSpare = 1024

// wantLocked makes e ready, or ready again if a worker has it now.
func (q *Queue[K]) wantLocked(e *entry[K], priority int) {
	if e.pending() {
		if priority > e.priority {
			e.priority = priority
			if e.ready != absent {
				q.ready.promote(e, q.rank(e))
			}
		}
		return
	}
	e.priority, e.since = priority, q.now()
	q.counters.Added()
	if e.working != absent {
		e.again = true
		return
	}
	q.readyLocked(e)
}

func (q *Queue[K]) readyLocked(e *entry[K]) {
	e.again = false
	q.ready.push(q.rank(e), e)
	q.arrived.Signal()
}

// rank is when an entry was requested, shifted by its priority. All waiting entries age at the same rate, so their
// order does not change while they wait.
func (q *Queue[K]) rank(e *entry[K]) int64 {
	return e.since - int64(e.priority)*int64(q.opts.Aging)
}
