package scheduler

import (
	"errors"
	"time"

	"github.com/millrace/millrace/internal/scheduler/placement"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// Metrics receives the scheduler's measurements. Its methods must be fast; some are called while the state of the
// cluster is locked.
type Metrics interface {
	// Attempt is called for each attempt to place a pod. took is the time until the decision, or, for Scheduled, until
	// the binding was confirmed.
	Attempt(profile string, result Result, took time.Duration)
	// Decided is called with the duration of each decision, successful or not.
	Decided(took time.Duration)
	// Bound is called when a pod is bound, with the number of attempts, the time since it was first seen without a
	// node, and whether it was tried again only because it had waited for too long.
	Bound(attempts int, waited time.Duration, timedOut bool)
	// Pending is called with the number of pods in one part of the queue: active, backoff, unschedulable or gated.
	Pending(queue string, pods int)
	// Count is called with a function that counts what the scheduler knows, and with nil when it stops. The function is
	// for scrapes: it looks at all pods.
	Count(now func() Counts)
	// PreemptionAttempt is called when victims are searched for.
	PreemptionAttempt()
	// Preempted is called with the number of victims of a preemption.
	Preempted(victims int)
	// Evicted is called when the victims of a preemption were deleted, or could not be.
	Evicted(err error, took time.Duration)
	// Handled is called when an event of a watch was handled, with kube-scheduler's name of it.
	Handled(event string, took time.Duration)
	// ClaimCreated is called when a resource claim was created, or could not be.
	ClaimCreated(err error)
	// DeviceWaited is called for each device of a pod that has waited until its devices were ready.
	DeviceWaited(profile string, w plugin.DeviceWait)
	// Profile returns the metrics for the pods of a profile. It is called once for each when the scheduler starts.
	Profile(name string) ProfileMetrics
}

// ProfileMetrics receives the measurements for the pods of one profile.
type ProfileMetrics interface {
	// Ran is called when an extension point was passed. Nodes are filtered and scored in one step, which counts as
	// Filter. Points at which there was nothing to do may be left out.
	Ran(point Point, status PointStatus, took time.Duration)
	// RanRule is called for some of the calls of a rule.
	RanRule(rule string, point Point, status PointStatus, took time.Duration)
}

// Point is an extension point.
type Point uint8

// The extension points.
const (
	PreFilter Point = iota
	Filter
	PostFilter
	Score
	Reserve
	PreBind
	Bind
	Points // the number of points
)

// String returns kube-scheduler's name of the point.
func (p Point) String() string {
	return [Points]string{"PreFilter", "Filter", "PostFilter", "Score", "Reserve", "PreBind", "Bind"}[p]
}

// PointStatus is how a point was passed.
type PointStatus uint8

// The statuses.
const (
	Succeeded PointStatus = iota
	Refused               // no node is suitable, or not this one
	Hopeless              // and preemption does not help
	Erred
	Waits         // the pod must wait
	PointStatuses // the number of statuses
)

// String returns kube-scheduler's name of the status.
func (s PointStatus) String() string {
	return [PointStatuses]string{"Success", "Unschedulable", "UnschedulableAndUnresolvable", "Error", "Pending"}[s]
}

func statusOf(err error) PointStatus {
	switch {
	case err == nil:
		return Succeeded
	case errors.As(err, new(plugin.Refusal)):
		return Hopeless
	case errors.As(err, new(plugin.Pending)):
		return Waits
	}
	return Erred
}

func filterStatus(failure *placement.Failure, err error) PointStatus {
	switch {
	case err != nil || failure != nil && failure.Broken:
		return Erred
	case failure != nil:
		return Refused
	}
	return Succeeded
}

func verdictStatus(v *plugin.Verdict) PointStatus {
	switch {
	case v == nil:
		return Succeeded
	case v.Broken:
		return Erred
	case v.Lasting:
		return Hopeless
	}
	return Refused
}

func bindStatus(end outcome) PointStatus {
	if end == bound {
		return Succeeded
	}
	return Erred
}

// Result is the result of an attempt.
type Result string

// kube-scheduler's results.
const (
	Scheduled     Result = "scheduled"
	Unschedulable Result = "unschedulable"
	Failed        Result = "error"
)

// Counts are what a scheduler knows.
type Counts struct {
	// Nodes, Pods and Assumed are the nodes, the pods with a node, and those whose node no watch has shown yet.
	Nodes, Pods, Assumed int
	// InFlight are the pods that are being placed and bound.
	InFlight int
	// Incoming are the pods that have come to parts of the queue since the scheduler runs.
	Incoming map[Incoming]uint64
	// Evaluations are the calls of rules that filter and score nodes since the scheduler runs.
	Evaluations map[Evaluation]uint64
	// Unschedulable are the waiting pods, by what has refused them. One pod may have been refused by several rules.
	Unschedulable map[Refuser]int
}

// Refuser is a rule of a profile.
type Refuser struct{ Profile, Plugin string }

// Incoming is a part of the queue and kube-scheduler's name of an event.
type Incoming struct{ Queue, Event string }

// Evaluation is a rule of a profile at an extension point.
type Evaluation struct {
	Refuser
	Point Point
}

type noMetrics struct{}

func (noMetrics) Attempt(string, Result, time.Duration)  {}
func (noMetrics) Decided(time.Duration)                  {}
func (noMetrics) Bound(int, time.Duration, bool)         {}
func (noMetrics) Pending(string, int)                    {}
func (noMetrics) Count(func() Counts)                    {}
func (noMetrics) PreemptionAttempt()                     {}
func (noMetrics) Preempted(int)                          {}
func (noMetrics) Evicted(error, time.Duration)           {}
func (noMetrics) ClaimCreated(error)                     {}
func (noMetrics) DeviceWaited(string, plugin.DeviceWait) {}
func (noMetrics) Handled(string, time.Duration)          {}
func (noMetrics) Profile(string) ProfileMetrics          { return noMetrics{} }

func (noMetrics) Ran(Point, PointStatus, time.Duration)             {}
func (noMetrics) RanRule(string, Point, PointStatus, time.Duration) {}
