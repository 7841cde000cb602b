package podautoscaler

import (
	"errors"
	"iter"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

// Metrics receives what becomes of autoscalers.
type Metrics interface {
	// Reconciled is called after each evaluation, with what it did and the first failure in it.
	Reconciled(did Action, failed Failure, took time.Duration)
	// Computed is called after each evaluation of a metric, with what it proposes.
	Computed(kind autoscalingv2.MetricSourceType, proposes Action, failed Failure, took time.Duration)
	// Count is called with a function that returns the autoscalers and the replicas that they want. It is for scrapes.
	Count(now func() iter.Seq2[loop.Key, int32])
}

// Action is a change of a workload's size.
type Action string

// The actions.
const (
	NoAction  Action = "none"
	ScaleUp   Action = "scale_up"
	ScaleDown Action = "scale_down"
)

// Failure says what is wrong.
type Failure string

// The failures.
const (
	NoFailure Failure = "none"
	InSpec    Failure = "spec"     // the autoscaler itself
	Internal  Failure = "internal" // anything else
)

type noMetrics struct{}

func (noMetrics) Reconciled(Action, Failure, time.Duration)                               {}
func (noMetrics) Computed(autoscalingv2.MetricSourceType, Action, Failure, time.Duration) {}
func (noMetrics) Count(func() iter.Seq2[loop.Key, int32])                                 {}

// specError is an error that only a change of the autoscaler mends.
type specError struct{ error }

func wrong(text string) error { return specError{errors.New(text)} }

func failureOf(err error) Failure {
	switch {
	case err == nil:
		return NoFailure
	case errors.As(err, new(specError)):
		return InSpec
	}
	return Internal
}

func actionOf(now, wanted int32) Action {
	switch {
	case wanted > now:
		return ScaleUp
	case wanted < now:
		return ScaleDown
	}
	return NoAction
}

// wantedReplicas ranges over the autoscalers.
func (r *controller) wantedReplicas() iter.Seq2[loop.Key, int32] {
	return func(yield func(loop.Key, int32) bool) {
		for hpa := range r.autoscalers.List() {
			if !yield(informer.KeyOf(hpa), hpa.Status.DesiredReplicas) {
				return
			}
		}
	}
}
