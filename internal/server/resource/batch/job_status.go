package batch

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/check"
	"github.com/millrace/millrace/internal/server/resource/quote"
)

var jobStatusRules = resource.Rules[*batchv1.Job]{ValidateUpdate: checkJobStatus}

func checkJobStatus(_ context.Context, j, old *batchv1.Job) field.ErrorList {
	s, path := &j.Status, field.NewPath("status")
	var errs field.ErrorList
	for _, n := range []struct {
		name  string
		value int32
	}{
		{"active", s.Active}, {"succeeded", s.Succeeded}, {"failed", s.Failed},
		{"ready", orZero(s.Ready)}, {"terminating", orZero(s.Terminating)},
	} {
		errs = append(errs, check.NonNegative(int64(n.value), path.Child(n.name))...)
	}
	if !equality.Semantic.DeepEqual(&j.Status, &old.Status) {
		errs = append(errs, checkFinished(j, path)...)
		errs = append(errs, checkStaysFinished(j, old, path)...)
	}
	return errs
}

// checkFinished requires that a finished job has a start and an end time, the condition that announced its end, and no
// active pods.
func checkFinished(j *batchv1.Job, path *field.Path) field.ErrorList {
	s := &j.Status
	complete, failed := jobHas(j, batchv1.JobComplete), jobHas(j, batchv1.JobFailed)
	var errs field.ErrorList
	bad := func(name string, value any, words string) {
		errs = append(errs, field.Invalid(path.Child(name), value, words))
	}
	switch t := s.CompletionTime; {
	case t == nil && complete:
		errs = append(errs, field.Required(path.Child("completionTime"), "completionTime is required for Complete jobs"))
	case t != nil && !complete:
		bad("completionTime", t, "cannot set completionTime when there is no Complete=True condition")
	}
	if s.CompletionTime != nil && s.StartTime != nil && s.CompletionTime.Before(s.StartTime) {
		bad("completionTime", s.CompletionTime, "completionTime cannot be set before startTime")
	}
	if complete && failed {
		bad("conditions", field.OmitValueType{}, "cannot set Complete=True and Failed=true conditions")
	}
	if complete && !jobHas(j, batchv1.JobSuccessCriteriaMet) {
		bad("conditions", field.OmitValueType{}, "cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
	}
	if failed && !jobHas(j, batchv1.JobFailureTarget) {
		bad("conditions", field.OmitValueType{}, "cannot set Failed=True condition without the FailureTarget=true condition")
	}
	if !complete && !failed {
		return errs
	}
	if s.StartTime == nil {
		errs = append(errs, field.Required(path.Child("startTime"), "startTime is required for finished job"))
	}
	if s.Active > 0 {
		bad("active", s.Active, "active>0 is invalid for finished job")
	}
	if orZero(s.Terminating) > 0 {
		bad("terminating", *s.Terminating, "terminating>0 is invalid for finished job")
	}
	if u := s.UncountedTerminatedPods; u != nil && len(u.Failed)+len(u.Succeeded) > 0 {
		bad("uncountedTerminatedPods", quote.Of(u), "uncountedTerminatedPods needs to be empty for finished job")
	}
	return errs
}

func checkStaysFinished(j, old *batchv1.Job, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, end := range []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed} {
		if jobHas(old, end) && !jobHas(j, end) {
			errs = append(errs, field.Invalid(path.Child("conditions"), field.OmitValueType{}, fmt.Sprintf("cannot disable the terminal %s=True condition", end)))
		}
	}
	return errs
}

func orZero(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}

func jobHas(j *batchv1.Job, want batchv1.JobConditionType) bool {
	for i := range j.Status.Conditions {
		if c := &j.Status.Conditions[i]; c.Type == want && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}
