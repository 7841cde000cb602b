package backlog

import (
	"time"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/internal/ruleset"
)

// Options of a queue. The zero value has kube-scheduler's times.
type Options struct {
	// Backoff is the delay after the first attempt. It doubles with each attempt, up to MaxBackoff. 0 means 1 s and 10
	// s.
	Backoff, MaxBackoff time.Duration
	// MaxWait is the longest time that a pod stays unschedulable. 0 means 5 minutes.
	MaxWait time.Duration
}

// Entry is a pod in the queue.
type Entry struct {
	Pod      *cluster.Pod
	Attempts int
	Added    time.Time // when it was first seen without a node
	TimedOut bool      // it is tried again only because it was unschedulable for too long
	stage    stage
	since    time.Time // when it came to its stage
	due      time.Time // when it may leave its stage
	sequence uint64
	slot     int  // its index in its heap
	failed   bool // it backs off because of an error
	group    Group
}

// Group has the properties that decide after which changes a pod is tried again. Unschedulable pods with equal ones are
// one group.
type Group struct {
	SchedulerName string
	Shape         *cluster.Shape
	Refused       ruleset.Bits
}

type stage uint8

const (
	active stage = iota
	backingOff
	unschedulable
	gated
	inFlight
)

// Sizes has the number of pods in each stage.
type Sizes struct{ Active, BackingOff, Unschedulable, Gated, InFlight int }

// Sizes returns the number of pods in each stage.
func (q *Queue) Sizes() Sizes {
	return Sizes{
		Active: q.sizes[active], BackingOff: q.sizes[backingOff], Unschedulable: q.sizes[unschedulable],
		Gated: q.sizes[gated], InFlight: q.sizes[inFlight],
	}
}
