package scheduler

import "time"

// Metrics is told what happens. Its methods must be quick; some are called
// while the state of the cluster is locked.
type Metrics interface {
	// Attempt: a pod was tried. took is the time until the decision, or, for
	// Scheduled, until the binding was confirmed.
	Attempt(profile string, result Result, took time.Duration)
	// Decided: a decision, good or bad, took so long.
	Decided(took time.Duration)
	// Bound: a pod has its node after a number of attempts, and so long after it was first seen without one.
	Bound(attempts int, waited time.Duration)
	// Pending: so many pods are in one part of the queue: active, backoff, unschedulable or gated.
	Pending(queue string, pods int)
	// PreemptionAttempt: others were looked at that could leave for a pod.
	PreemptionAttempt()
	// Preempted: so many pods have to leave for one.
	Preempted(victims int)
}

// Result is how an attempt ended.
type Result string

// The results that kube-scheduler counts.
const (
	Scheduled     Result = "scheduled"
	Unschedulable Result = "unschedulable"
	Failed        Result = "error"
)

type noMetrics struct{}

func (noMetrics) Attempt(string, Result, time.Duration) {}
func (noMetrics) Decided(time.Duration)                 {}
func (noMetrics) Bound(int, time.Duration)              {}
func (noMetrics) Pending(string, int)                   {}
func (noMetrics) PreemptionAttempt()                    {}
func (noMetrics) Preempted(int)                         {}
