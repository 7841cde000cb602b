package backlog

import (
	"time"

	"github.com/millrace/millrace/scheduler/internal/cluster"
	"github.com/millrace/millrace/scheduler/internal/ruleset"
)

// Options of a queue. The zero value has kube-scheduler's times.
type Options struct {
	// Backoff is the time after a first attempt; each further one doubles it, up to MaxBackoff. 0 means 1 s and 10 s.
	Backoff, MaxBackoff time.Duration
	// MaxWait is how long a pod stays unschedulable when nothing happens. 0 means 5 minutes.
	MaxWait time.Duration
}

// Entry is a pod in the queue.
type Entry struct {
	Pod      *cluster.Pod
	Attempts int
	Added    time.Time // when it was first seen without a node
	place    place
	since    time.Time // when it came to where it is
	due      time.Time // when it may leave
	sequence uint64
	slot     int  // in the heap that it is in
	failed   bool // backs off because of an error
	group    Group
}

// Group is what unschedulable pods with the same prospects have in common.
type Group struct {
	SchedulerName string
	Shape         *cluster.Shape
	Refused       ruleset.Bits
}

type place uint8

const (
	active place = iota
	backingOff
	unschedulable
	gated
	inFlight
)

// Sizes says how many pods are where.
type Sizes struct{ Active, BackingOff, Unschedulable, Gated, InFlight int }

// Sizes returns how many pods are where.
func (q *Queue) Sizes() Sizes {
	return Sizes{
		Active: q.sizes[active], BackingOff: q.sizes[backingOff], Unschedulable: q.sizes[unschedulable],
		Gated: q.sizes[gated], InFlight: q.sizes[inFlight],
	}
}
