package webhooks

import "time"

// Metrics are told of calls. A step is "admit" or "validating", as in Kubernetes' labels. They are called by many
// goroutines.
type Metrics interface {
	// Called is told of each call: with the code of the answer, and whether it ended the request.
	Called(name, step, operation string, code int, rejected bool, took time.Duration)
	// Rejected is told why a request ended: calling_webhook_error, apiserver_internal_error or, for a refusal,
	// no_error.
	Rejected(name, step, operation, why string, code int)
	// FailedOpen is told of failures that were ignored.
	FailedOpen(name, step string)
	// ConditionFailed is told of match conditions that could not be evaluated, and Excluded of those that did not hold.
	ConditionFailed(name, step, operation string)
	Excluded(name, step, operation string)
}

type noMetrics struct{}

func (noMetrics) Called(string, string, string, int, bool, time.Duration) {}
func (noMetrics) Rejected(string, string, string, string, int)            {}
func (noMetrics) FailedOpen(string, string)                               {}
func (noMetrics) ConditionFailed(string, string, string)                  {}
func (noMetrics) Excluded(string, string, string)                         {}
