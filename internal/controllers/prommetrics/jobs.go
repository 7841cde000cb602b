package prommetrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"

	"github.com/millrace/millrace/internal/controllers/job"
)

// jobs is a job.Metrics.
type jobs struct {
	synced   *children[jobSync, jobSyncs]
	finished *children[jobEnd, prometheus.Counter]
	pods     map[batchv1.CompletionMode]results
	indexes  map[bool]results
	created  *children[jobPod, prometheus.Counter]
	judged   *children[batchv1.PodFailurePolicyAction, prometheus.Counter]
	tracked  map[bool]prometheus.Counter
	others   *prometheus.CounterVec
	expired  prometheus.Histogram
}

// results count what has succeeded and what has failed.
type results struct{ succeeded, failed prometheus.Counter }

func (r results) add(succeeded, failed int) {
	r.succeeded.Add(float64(max(succeeded, 0)))
	r.failed.Add(float64(max(failed, 0)))
}

// jobSync is what a sync does.
type jobSync struct {
	mode   batchv1.CompletionMode
	did    job.Action
	failed bool
}

type jobSyncs struct {
	number prometheus.Counter
	took   prometheus.Observer
}

// jobEnd is how a Job ends.
type jobEnd struct {
	mode      batchv1.CompletionMode
	succeeded bool
	reason    string
}

// jobPod is an attempt to make a pod.
type jobPod struct {
	why    job.Why
	failed bool
}

// result returns the label of a result.
func result(failed bool) string {
	if failed {
		return "failed"
	}
	return "succeeded"
}

func newJobs(m *maker) *jobs {
	const subsystem = "job_controller"
	perSync := []string{"completion_mode", "result", "action"}
	took := m.histograms(subsystem, "job_sync_duration_seconds", "How long in seconds a sync of a Job takes.", prometheus.ExponentialBuckets(0.004, 2, 15), perSync...)
	syncs := m.counters(subsystem, "job_syncs_total", "Number of syncs of Jobs.", perSync...)
	ends := m.counters(subsystem, "jobs_finished_total", "Number of Jobs that have ended, by their completion mode, the result and the reason.", "completion_mode", "result", "reason")
	pods := m.counters(subsystem, "job_pods_finished_total", "Number of pods that have ended and were counted in their Job's status.", "completion_mode", "result")
	indexes := m.counters(subsystem, "job_finished_indexes_total", "Number of indexes that have ended, by whether each has its own limit for failures.", "status", "backoffLimit")
	created := m.counters(subsystem, "job_pods_creation_total", "Number of attempts to make a pod, by the reason and the result.", "reason", "status")
	judged := m.counters(subsystem, "pod_failures_handled_by_failure_policy_total", "Number of failed pods to which a rule of a pod failure policy applied, by its action.", "action")
	tracked := m.counters(subsystem, "terminated_pods_tracking_finalizer_total", "Number of pods that have ended with the finalizer of Jobs (add), and that lost it then (delete).", "event")
	j := &jobs{
		synced: childrenOf(func(s jobSync) jobSyncs {
			result := "success"
			if s.failed {
				result = "error"
			}
			labels := []string{string(s.mode), result, string(s.did)}
			return jobSyncs{syncs.WithLabelValues(labels...), took.WithLabelValues(labels...)}
		}),
		finished: childrenOf(func(e jobEnd) prometheus.Counter {
			return ends.WithLabelValues(string(e.mode), result(!e.succeeded), e.reason)
		}),
		created: childrenOf(func(p jobPod) prometheus.Counter { return created.WithLabelValues(string(p.why), result(p.failed)) }),
		judged:  childrenOf(func(a batchv1.PodFailurePolicyAction) prometheus.Counter { return judged.WithLabelValues(string(a)) }),
		tracked: map[bool]prometheus.Counter{true: tracked.WithLabelValues("add"), false: tracked.WithLabelValues("delete")},
		others:  m.counters(subsystem, "jobs_by_external_controller_total", "Number of Jobs that another controller manages, by its name.", "controller_name"),
		expired: m.histogram("ttl_after_finished_controller", "job_deletion_duration_seconds", "How long in seconds after its time a finished Job is deleted.", prometheus.ExponentialBuckets(0.1, 2, 14)),
		pods:    map[batchv1.CompletionMode]results{}, indexes: map[bool]results{},
	}
	for _, mode := range []batchv1.CompletionMode{batchv1.NonIndexedCompletion, batchv1.IndexedCompletion} {
		j.pods[mode] = results{pods.WithLabelValues(string(mode), result(false)), pods.WithLabelValues(string(mode), result(true))}
	}
	for own, limit := range map[bool]string{true: "perIndex", false: "global"} {
		j.indexes[own] = results{indexes.WithLabelValues(result(false), limit), indexes.WithLabelValues(result(true), limit)}
	}
	return j
}

// Synced implements job.Metrics.
func (j *jobs) Synced(mode batchv1.CompletionMode, did job.Action, err error, took time.Duration) {
	s := j.synced.of(jobSync{mode, did, err != nil})
	s.number.Inc()
	s.took.Observe(took.Seconds())
}

// Finished implements job.Metrics.
func (j *jobs) Finished(mode batchv1.CompletionMode, succeeded bool, reason string) {
	j.finished.of(jobEnd{mode, succeeded, reason}).Inc()
}

// Pods implements job.Metrics.
func (j *jobs) Pods(mode batchv1.CompletionMode, succeeded, failed int) {
	if r, ok := j.pods[mode]; ok {
		r.add(succeeded, failed)
	}
}

// Indexes implements job.Metrics.
func (j *jobs) Indexes(limited bool, succeeded, failed int) {
	j.indexes[limited].add(succeeded, failed)
}

// Created implements job.Metrics.
func (j *jobs) Created(why job.Why, err error) { j.created.of(jobPod{why, err != nil}).Inc() }

// Judged implements job.Metrics.
func (j *jobs) Judged(action batchv1.PodFailurePolicyAction) { j.judged.of(action).Inc() }

// Tracked implements job.Metrics.
func (j *jobs) Tracked(tracked bool) { j.tracked[tracked].Inc() }

// Delegated implements job.Metrics. Such Jobs are rare.
func (j *jobs) Delegated(to string) { j.others.WithLabelValues(to).Inc() }

// Expired implements job.Metrics.
func (j *jobs) Expired(late time.Duration) { j.expired.Observe(late.Seconds()) }

// cronJobs is a cronjob.Metrics.
type cronJobs struct{ late prometheus.Histogram }

func newCronJobs(m *maker) *cronJobs {
	return &cronJobs{m.histogram("cronjob_controller", "job_creation_skew_duration_seconds",
		"How long in seconds after its scheduled time a Job is made.", prometheus.ExponentialBuckets(1, 2, 10))}
}

// Started implements cronjob.Metrics.
func (c *cronJobs) Started(late time.Duration) { c.late.Observe(late.Seconds()) }
