package batch

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/resource"
	"github.com/millrace/millrace/resource/check"
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
	complete, failed := jobHas(j, batchv1.JobComplete), jobHas(j, batchv1.JobFailed)
	if complete && failed {
		errs = append(errs, field.Invalid(path.Child("conditions"), field.OmitValueType{}, "cannot set Complete=True and Failed=true conditions"))
	}
	if t := s.CompletionTime; t != nil {
		if !complete {
			errs = append(errs, field.Invalid(path.Child("completionTime"), t, "cannot set completionTime when there is no Complete=True condition"))
		}
		if s.StartTime != nil && t.Before(s.StartTime) {
			errs = append(errs, field.Invalid(path.Child("completionTime"), t, "completionTime cannot be set before startTime"))
		}
	} else if complete {
		errs = append(errs, field.Required(path.Child("completionTime"), "completionTime is required for Complete jobs"))
	}
	if (complete || failed) && s.StartTime == nil {
		errs = append(errs, field.Required(path.Child("startTime"), "startTime is required for finished job"))
	}
	if (complete || failed) && s.Active > 0 {
		errs = append(errs, field.Invalid(path.Child("active"), s.Active, "active>0 is invalid for finished job"))
	}
	if jobHas(old, batchv1.JobComplete) && !complete {
		errs = append(errs, field.Invalid(path.Child("conditions"), field.OmitValueType{}, "cannot disable the terminal Complete=True condition"))
	}
	if jobHas(old, batchv1.JobFailed) && !failed {
		errs = append(errs, field.Invalid(path.Child("conditions"), field.OmitValueType{}, "cannot disable the terminal Failed=True condition"))
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
