package cronjob

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/loop"
)

// schedule makes the Job that is due, if any, and returns when to sync again.
func (s *oneSync) schedule(ctx context.Context) (time.Duration, error) {
	if s.cron.DeletionTimestamp != nil || s.cron.Spec.Suspend != nil && *s.cron.Spec.Suspend {
		return 0, nil
	}
	times, err := scheduleOf(s.cron)
	var zone zoneError
	switch {
	case errors.As(err, &zone):
		s.recorder.Eventf(s.cron, corev1.EventTypeWarning, "UnknownTimeZone", "%s", err)
		return 0, nil
	case err != nil:
		s.recorder.Eventf(s.cron, corev1.EventTypeWarning, "UnparseableSchedule", "unparseable schedule: %q : %s", s.cron.Spec.Schedule, err)
		return 0, nil
	}
	from := earliest(s.cron, s.now)
	if times.Next(from).IsZero() {
		s.recorder.Eventf(s.cron, corev1.EventTypeWarning, "InvalidSchedule", "invalid schedule: %s : time difference between two schedules is less than 1 second", s.cron.Spec.Schedule)
		return 0, nil
	}
	at, many := latest(times, from, s.now)
	if many {
		s.recorder.Eventf(s.cron, corev1.EventTypeWarning, "TooManyMissedTimes", "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew")
	}
	if !at.IsZero() {
		err = s.start(ctx, at)
	}
	return pause(times, s.now), err
}

// start makes the Job of a scheduled time, unless the deadline or the concurrency policy forbids it.
func (s *oneSync) start(ctx context.Context, at time.Time) error {
	name := jobName(s.cron, at)
	if slices.ContainsFunc(s.cron.Status.Active, func(ref corev1.ObjectReference) bool { return ref.Name == name }) {
		return nil
	}
	if d := s.cron.Spec.StartingDeadlineSeconds; d != nil && at.Add(demand.Seconds(*d)).Before(s.now) {
		s.recorder.Eventf(s.cron, corev1.EventTypeWarning, "MissSchedule", "Missed scheduled time to start a job: %s", at.UTC().Format(time.RFC1123Z))
		return nil
	}
	switch {
	case len(s.cron.Status.Active) == 0:
	case s.cron.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent:
		s.recorder.Eventf(s.cron, corev1.EventTypeNormal, "JobAlreadyActive", "Not starting job because prior execution is running and concurrency policy is Forbid")
		return nil
	case s.cron.Spec.ConcurrencyPolicy == batchv1.ReplaceConcurrent:
		if err := s.removeActive(ctx); err != nil {
			return err
		}
	}
	return s.create(ctx, s.jobAt(at, name), at)
}

// jobName contains the scheduled time, so that no time gets two Jobs.
func jobName(cron *batchv1.CronJob, at time.Time) string {
	return fmt.Sprintf("%s-%d", cron.Name, at.Unix()/60)
}

// jobAt returns the Job for a scheduled time.
func (s *oneSync) jobAt(at time.Time, name string) *batchv1.Job {
	t := &s.cron.Spec.JobTemplate
	notes := maps.Clone(t.Annotations)
	if notes == nil {
		notes = map[string]string{}
	}
	if zone := s.cron.Spec.TimeZone; zone != nil {
		if l, err := time.LoadLocation(*zone); err == nil {
			at = at.In(l)
		}
	}
	notes[batchv1.CronJobScheduledTimestampAnnotation] = at.Format(time.RFC3339)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: s.cron.Namespace, Labels: t.Labels, Annotations: notes,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s.cron, kind)},
		},
		Spec: t.Spec,
	}
}

func (s *oneSync) create(ctx context.Context, job *batchv1.Job, at time.Time) error {
	jobs := s.kube.BatchV1().Jobs(job.Namespace)
	made, err := jobs.Create(ctx, job, metav1.CreateOptions{})
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return err
	case apierrors.IsAlreadyExists(err):
		if made, err = jobs.Get(ctx, job.Name, metav1.GetOptions{}); err != nil {
			return fmt.Errorf("look at the job %s: %w", job.Name, err)
		}
		if !metav1.IsControlledBy(made, s.cron) {
			return loop.Terminal(fmt.Errorf("create job %s/%s: somebody else's has that name", job.Namespace, job.Name))
		}
	case err != nil:
		s.recorder.Eventf(s.cron, corev1.EventTypeWarning, "FailedCreate", "Error creating job: %v", err)
		return fmt.Errorf("create job %s/%s: %w", job.Namespace, job.Name, err)
	default:
		s.recorder.Eventf(s.cron, corev1.EventTypeNormal, "SuccessfulCreate", "Created job %v", made.Name)
		s.metrics.Started(made.CreationTimestamp.Sub(at))
	}
	loop.Wrote(ctx, s.controller.jobs, made.ResourceVersion)
	if _, ended := ending(made); !ended {
		s.cron.Status.Active = append(s.cron.Status.Active, corev1.ObjectReference{
			Kind: "Job", APIVersion: batchv1.SchemeGroupVersion.String(), Namespace: made.Namespace, Name: made.Name, UID: made.UID, ResourceVersion: made.ResourceVersion,
		})
	}
	s.cron.Status.LastScheduleTime = &metav1.Time{Time: at}
	return nil
}

// removeActive deletes all active Jobs.
func (s *oneSync) removeActive(ctx context.Context) error {
	for _, ref := range slices.Clone(s.cron.Status.Active) {
		i := slices.IndexFunc(s.jobs, func(j *batchv1.Job) bool { return j.UID == ref.UID })
		if i < 0 {
			return fmt.Errorf("replace job %s: %w", ref.Name, loop.ErrBehind)
		}
		if err := s.remove(ctx, s.jobs[i]); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes a Job and, in the background, its pods.
func (s *oneSync) remove(ctx context.Context, j *batchv1.Job) error {
	background := metav1.DeletePropagationBackground
	err := s.kube.BatchV1().Jobs(j.Namespace).Delete(ctx, j.Name, metav1.DeleteOptions{
		PropagationPolicy: &background, Preconditions: metav1.NewUIDPreconditions(string(j.UID)),
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		s.recorder.Eventf(s.cron, corev1.EventTypeWarning, "FailedDelete", "Deleted job: %v", err)
		return fmt.Errorf("delete job %s/%s: %w", j.Namespace, j.Name, err)
	}
	s.forget(j)
	loop.Removed(ctx, s.controller.jobs, j)
	if err == nil {
		s.recorder.Eventf(s.cron, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted job %v", j.Name)
	}
	return nil
}
