package backlog

import (
	"cmp"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/internal/ruleset"
)

// Queue holds the pods without a node.
type Queue struct {
	options  Options
	entries  map[cluster.Key]*Entry
	active   heap
	backoff  heap // by due
	failed   heap // entries that back off after an error, by due
	waiting  heap // the unschedulable entries, by due
	groups   map[Group]map[*Entry]struct{}
	sizes    [inFlight + 1]int
	sequence uint64
	incoming incoming
}

// New returns an empty queue.
func New(options Options) *Queue {
	options.Backoff = cmp.Or(options.Backoff, time.Second)
	options.MaxBackoff = cmp.Or(options.MaxBackoff, 10*time.Second)
	options.MaxWait = cmp.Or(options.MaxWait, 5*time.Minute)
	soonest := func(a, b *Entry) bool { return a.due.Before(b.due) }
	return &Queue{
		options: options,
		entries: make(map[cluster.Key]*Entry),
		active:  heap{less: comesFirst},
		backoff: heap{less: soonest},
		failed:  heap{less: soonest},
		waiting: heap{less: soonest},
		groups:  make(map[Group]map[*Entry]struct{}),
	}
}

func comesFirst(a, b *Entry) bool {
	if a.Pod.Priority != b.Pod.Priority {
		return a.Pod.Priority > b.Pod.Priority
	}
	if !a.since.Equal(b.since) {
		return a.since.Before(b.since)
	}
	return a.sequence < b.sequence
}

// Set adds a pod without a node, or a new version of it.
func (q *Queue) Set(pod *cluster.Pod, now time.Time) {
	e, ok := q.entries[pod.Key]
	if ok && e.Pod.UID != pod.UID {
		q.Remove(pod.Key)
		ok = false
	}
	if !ok {
		e = &Entry{Pod: pod, Added: now}
		q.entries[pod.Key] = e
		q.admit(e, now, PodAdded)
		return
	}
	old := e.Pod
	if old.Priority != pod.Priority && e.stage == active {
		q.take(e)
		e.Pod = pod
		q.put(e, active, now, PodUpdated)
		return
	}
	e.Pod = pod
	switch {
	case e.stage == gated && len(pod.Gates) == 0:
		q.take(e)
		q.put(e, active, now, GatesRemoved)
	case e.stage != gated && e.stage != inFlight && len(pod.Gates) > 0:
		q.take(e)
		q.put(e, gated, now, PodUpdated)
	case e.stage == unschedulable && (old.Shape != pod.Shape || !slices.Equal(old.Claims, pod.Claims)):
		q.wake(e, now, PodUpdated)
	}
}

func (q *Queue) admit(e *Entry, now time.Time, because Event) {
	if len(e.Pod.Gates) > 0 {
		q.put(e, gated, now, because)
		return
	}
	q.put(e, active, now, because)
}

// Remove removes a pod that was deleted or has a node.
func (q *Queue) Remove(key cluster.Key) {
	if e, ok := q.entries[key]; ok {
		q.take(e)
		delete(q.entries, key)
	}
}

// Has reports whether a pod is in the queue, including in flight.
func (q *Queue) Has(key cluster.Key) bool { return q.entries[key] != nil }

// Pod returns the newest version of a pod that is in the queue, or nil.
func (q *Queue) Pod(key cluster.Key) *cluster.Pod {
	if e, ok := q.entries[key]; ok {
		return e.Pod
	}
	return nil
}

// Pop returns the pod to try next, and counts an attempt. If no pod is active, pods that back off are tried early,
// unless they do so after an error: that delays no other pod.
func (q *Queue) Pop(now time.Time) (*Entry, bool) {
	e := q.active.first()
	if e == nil {
		if e = q.backoff.first(); e == nil {
			return nil, false
		}
		q.incoming[active][TakenEarly]++
	}
	q.take(e)
	q.put(e, inFlight, now, TakenEarly)
	e.Attempts++
	return e, true
}

// Fail makes a pod in flight unschedulable. refused are the rules that refused it.
func (q *Queue) Fail(e *Entry, refused ruleset.Bits, now time.Time) {
	if q.entries[e.Pod.Key] != e || e.stage != inFlight {
		return
	}
	q.take(e)
	e.group = Group{SchedulerName: e.Pod.SchedulerName, Shape: e.Pod.Shape, Refused: refused}
	e.TimedOut = false
	q.put(e, unschedulable, now, AttemptFailed)
}

// Retry lets a pod in flight back off because of an error.
func (q *Queue) Retry(e *Entry, now time.Time) {
	if q.entries[e.Pod.Key] != e || e.stage != inFlight {
		return
	}
	q.take(e)
	e.failed = true
	q.put(e, backingOff, now, AttemptFailed)
}

// Unschedulable calls f with each group of unschedulable pods and their number.
func (q *Queue) Unschedulable(f func(g Group, pods int)) {
	for group, members := range q.groups {
		f(group, len(members))
	}
}

// Wake lets unschedulable pods be tried again after an event: in groups for which may is true, those for which some is
// true, or all if some is nil.
func (q *Queue) Wake(now time.Time, after Event, may func(Group) bool, some func(*cluster.Pod) bool) {
	for group, members := range q.groups {
		if !may(group) {
			continue
		}
		for e := range members {
			if some == nil || some(e.Pod) {
				q.wake(e, now, after)
			}
		}
	}
}

// WakeOne lets one pod be tried again, if it is unschedulable.
func (q *Queue) WakeOne(key cluster.Key, now time.Time) {
	if e, ok := q.entries[key]; ok && e.stage == unschedulable {
		q.wake(e, now, Activated)
	}
}

// wake lets an unschedulable pod be tried again as soon as its back-off ends.
func (q *Queue) wake(e *Entry, now time.Time, after Event) {
	failed := e.since
	q.take(e)
	if len(e.Pod.Gates) > 0 {
		q.put(e, gated, now, after)
		return
	}
	if failed.Add(q.backoffOf(e)).After(now) {
		q.put(e, backingOff, failed, after)
		return
	}
	q.put(e, active, now, after)
}

// Advance moves entries that are due. Call it at the time that Next returns; earlier calls do no harm.
func (q *Queue) Advance(now time.Time) {
	for _, h := range []*heap{&q.backoff, &q.failed} {
		for e := h.first(); e != nil && !e.due.After(now); e = h.first() {
			q.take(e)
			q.admit(e, now, BackoffEnded)
		}
	}
	for e := q.waiting.first(); e != nil && !e.due.After(now); e = q.waiting.first() {
		e.TimedOut = true
		q.wake(e, now, TimedOut)
	}
}

// Next returns when an entry is due, or false if none will be.
func (q *Queue) Next() (time.Time, bool) {
	var next time.Time
	for _, h := range []*heap{&q.backoff, &q.failed, &q.waiting} {
		if e := h.first(); e != nil && (next.IsZero() || e.due.Before(next)) {
			next = e.due
		}
	}
	return next, !next.IsZero()
}

func (q *Queue) backoffOf(e *Entry) time.Duration {
	d := q.options.Backoff
	for i := 1; i < e.Attempts && d < q.options.MaxBackoff; i++ {
		d *= 2
	}
	return min(d, q.options.MaxBackoff)
}

func (q *Queue) put(e *Entry, to stage, now time.Time, because Event) {
	if to != inFlight {
		q.incoming[to][because]++
	}
	q.sequence++
	e.stage, e.since, e.sequence = to, now, q.sequence
	q.sizes[to]++
	switch to {
	case active:
		q.active.push(e)
	case backingOff:
		e.due = now.Add(q.backoffOf(e))
		q.backoffHeap(e).push(e)
	case unschedulable:
		e.due = now.Add(q.options.MaxWait)
		q.waiting.push(e)
		if q.groups[e.group] == nil {
			q.groups[e.group] = make(map[*Entry]struct{})
		}
		q.groups[e.group][e] = struct{}{}
	}
}

func (q *Queue) take(e *Entry) {
	q.sizes[e.stage]--
	switch e.stage {
	case active:
		q.active.remove(e)
	case backingOff:
		q.backoffHeap(e).remove(e)
		e.failed = false
	case unschedulable:
		q.waiting.remove(e)
		delete(q.groups[e.group], e)
		if len(q.groups[e.group]) == 0 {
			delete(q.groups, e.group)
		}
	}
}

func (q *Queue) backoffHeap(e *Entry) *heap {
	if e.failed {
		return &q.failed
	}
	return &q.backoff
}

// Holds reports whether an entry is still in the queue.
func (q *Queue) Holds(e *Entry) bool { return q.entries[e.Pod.Key] == e }
