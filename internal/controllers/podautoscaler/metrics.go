package podautoscaler

import (
	"errors"
	"iter"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

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
