package scheduler

import "time"

// Metrics receives the scheduler's measurements. Its methods must be fast; some are called while the state of the
// cluster is locked.
type Metrics interface {
	// Attempt is called for each attempt to place a pod. took is the time until the decision, or, for Scheduled, until the
	// binding was confirmed.
	Attempt(profile string, result Result, took time.Duration)
	// Decided is called with the duration of each decision, successful or not.
	Decided(took time.Duration)
	// Bound is called when a pod is bound, with the number of attempts and the time since it was first seen without a
	// node.
	Bound(attempts int, waited time.Duration)
	// Pending is called with the number of pods in one part of the queue: active, backoff, unschedulable or gated.
	Pending(queue string, pods int)
	// Count is called with a function that counts what the scheduler knows, and with nil when it stops. The function is for scrapes: it
	// looks at all pods.
	Count(now func() Counts)
	// PreemptionAttempt is called when victims are searched for.
	PreemptionAttempt()
	// Preempted is called with the number of victims of a preemption.
	Preempted(victims int)
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
	// Unschedulable are the waiting pods, by what has refused them. One pod may have been refused by several rules.
	Unschedulable map[Refuser]int
}

// Refuser is a rule of a profile.
type Refuser struct{ Profile, Plugin string }

type noMetrics struct{}

func (noMetrics) Attempt(string, Result, time.Duration) {}
func (noMetrics) Decided(time.Duration)                 {}
func (noMetrics) Bound(int, time.Duration)              {}
func (noMetrics) Pending(string, int)                   {}
func (noMetrics) Count(func() Counts)                   {}
func (noMetrics) PreemptionAttempt()                    {}
func (noMetrics) Preempted(int)                         {}
