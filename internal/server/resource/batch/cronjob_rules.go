package batch

import (
	"context"
	"strings"
	"time"
	_ "time/tzdata" // embeds the time zones, so that the same ones are known on every machine

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/check"
	"github.com/millrace/millrace/internal/server/resource/podspec"
)

var cronJobRules = resource.Rules[*batchv1.CronJob]{
	Validate: func(ctx context.Context, c *batchv1.CronJob) field.ErrorList {
		errs := checkCronJob(ctx, c, nil)
		if len(c.Name) > longestCronJob {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), c.Name, "must be no more than 52 characters"))
		}
		return errs
	},
	ValidateUpdate: func(ctx context.Context, c, old *batchv1.CronJob) field.ErrorList { return checkCronJob(ctx, c, old) },
	Warnings: func(_ context.Context, c, old *batchv1.CronJob) []string {
		return podspec.TemplateOwnerWarnings(c, old, &c.Spec.JobTemplate.Spec.Template, specPath.Child("jobTemplate", "spec", "template"))
	},
}

// longestCronJob leaves space in the names of jobs for a dash and the minute.
const longestCronJob = validation.DNS1035LabelMaxLength - 11

// checkCronJob validates the whole object. If old is not nil, its time zone may stay even if it is no longer known.
func checkCronJob(ctx context.Context, c, old *batchv1.CronJob) field.ErrorList {
	s := &c.Spec
	var errs field.ErrorList
	if s.Schedule == "" {
		errs = append(errs, field.Required(specPath.Child("schedule"), ""))
	} else {
		errs = append(errs, checkSchedule(s, old)...)
	}
	errs = append(errs, nonNegative(s.StartingDeadlineSeconds, specPath, "startingDeadlineSeconds")...)
	if z := s.TimeZone; z != nil && (old == nil || old.Spec.TimeZone == nil || *old.Spec.TimeZone != *z) {
		errs = append(errs, checkZone(*z)...)
	}
	if s.ConcurrencyPolicy == "" {
		errs = append(errs, field.Required(specPath.Child("concurrencyPolicy"), ""))
	} else {
		errs = append(errs, check.OneOf(s.ConcurrencyPolicy, specPath.Child("concurrencyPolicy"),
			batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent)...)
	}
	errs = append(errs, checkJobSpec(ctx, &s.JobTemplate.Spec, specPath.Child("jobTemplate", "spec"))...)
	errs = append(errs, nonNegative(s.SuccessfulJobsHistoryLimit, specPath, "successfulJobsHistoryLimit")...)
	errs = append(errs, nonNegative(s.FailedJobsHistoryLimit, specPath, "failedJobsHistoryLimit")...)
	return errs
}

func checkSchedule(s *batchv1.CronJobSpec, old *batchv1.CronJob) field.ErrorList {
	path := func() *field.Path { return specPath.Child("schedule") }
	if _, err := cron.ParseStandard(s.Schedule); err != nil {
		return field.ErrorList{field.Invalid(path(), s.Schedule, err.Error())}
	}
	if !strings.Contains(s.Schedule, "TZ") {
		return nil
	}
	if s.TimeZone != nil {
		return field.ErrorList{field.Invalid(path(), s.Schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule")}
	}
	if old == nil || !strings.Contains(old.Spec.Schedule, "TZ") {
		return field.ErrorList{field.Invalid(path(), s.Schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")}
	}
	return nil
}

func checkZone(zone string) field.ErrorList {
	path := specPath.Child("timeZone")
	switch {
	case zone == "":
		return field.ErrorList{field.Invalid(path, zone, "timeZone must be nil or non-empty string")}
	case strings.EqualFold(zone, "Local"):
		return field.ErrorList{field.Invalid(path, zone, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones")}
	}
	if _, err := time.LoadLocation(zone); err != nil {
		problem := "unknown time zone " + zone
		if strings.Contains(zone, "..") && !strings.Contains(zone, "/") {
			problem = "time: invalid location name"
		}
		return field.ErrorList{field.Invalid(path, zone, problem)}
	}
	return nil
}

var cronJobStatusRules resource.Rules[*batchv1.CronJob]
