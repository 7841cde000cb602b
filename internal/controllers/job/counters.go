package job

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"

	"github.com/millrace/millrace/internal/controllers/internal/meter"
)

// Metrics counts what becomes of Jobs.
type Metrics struct {
	synced   *meter.Children[jobSync, jobSyncs]
	finished *meter.Children[jobEnd, prometheus.Counter]
	pods     map[batchv1.CompletionMode]results
	indexes  map[bool]results
	created  *meter.Children[jobPod, prometheus.Counter]
	judged   *meter.Children[batchv1.PodFailurePolicyAction, prometheus.Counter]
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
	did    Action
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
	why    Why
	failed bool
}

// result returns the label of a result.
func result(failed bool) string {
	if failed {
		return "failed"
	}
	return "succeeded"
}

// NewMetrics makes the metrics.
func NewMetrics(m *meter.Maker) *Metrics {
	const subsystem = "job_controller"
	perSync := []string{"completion_mode", "result", "action"}
	took := m.Histograms(subsystem, "job_sync_duration_seconds", "How long in seconds a sync of a Job takes.", prometheus.ExponentialBuckets(0.004, 2, 15), perSync...)
	syncs := m.Counters(subsystem, "job_syncs_total", "Number of syncs of Jobs.", perSync...)
	ends := m.Counters(subsystem, "jobs_finished_total", "Number of Jobs that have ended, by their completion mode, the result and the reason.", "completion_mode", "result", "reason")
	pods := m.Counters(subsystem, "job_pods_finished_total", "Number of pods that have ended and were counted in their Job's status.", "completion_mode", "result")
	indexes := m.Counters(subsystem, "job_finished_indexes_total", "Number of indexes that have ended, by whether each has its own limit for failures.", "status", "backoffLimit")
	created := m.Counters(subsystem, "job_pods_creation_total", "Number of attempts to make a pod, by the reason and the result.", "reason", "status")
	judged := m.Counters(subsystem, "pod_failures_handled_by_failure_policy_total", "Number of failed pods to which a rule of a pod failure policy applied, by its action.", "action")
	tracked := m.Counters(subsystem, "terminated_pods_tracking_finalizer_total", "Number of pods that have ended with the finalizer of Jobs (add), and that lost it then (delete).", "event")
	j := &Metrics{
		synced: meter.ChildrenOf(func(s jobSync) jobSyncs {
			result := "success"
			if s.failed {
				result = "error"
			}
			labels := []string{string(s.mode), result, string(s.did)}
			return jobSyncs{syncs.WithLabelValues(labels...), took.WithLabelValues(labels...)}
		}),
		finished: meter.ChildrenOf(func(e jobEnd) prometheus.Counter {
			return ends.WithLabelValues(string(e.mode), result(!e.succeeded), e.reason)
		}),
		created: meter.ChildrenOf(func(p jobPod) prometheus.Counter { return created.WithLabelValues(string(p.why), result(p.failed)) }),
		judged:  meter.ChildrenOf(func(a batchv1.PodFailurePolicyAction) prometheus.Counter { return judged.WithLabelValues(string(a)) }),
		tracked: map[bool]prometheus.Counter{true: tracked.WithLabelValues("add"), false: tracked.WithLabelValues("delete")},
		others:  m.Counters(subsystem, "jobs_by_external_controller_total", "Number of Jobs that another controller manages, by its name.", "controller_name"),
		expired: m.Histogram("ttl_after_finished_controller", "job_deletion_duration_seconds",
			"How long in seconds after its time a finished Job is deleted.", prometheus.ExponentialBuckets(0.1, 2, 14)),
		pods: map[batchv1.CompletionMode]results{}, indexes: map[bool]results{},
	}
	for _, mode := range []batchv1.CompletionMode{batchv1.NonIndexedCompletion, batchv1.IndexedCompletion} {
		j.pods[mode] = results{pods.WithLabelValues(string(mode), result(false)), pods.WithLabelValues(string(mode), result(true))}
	}
	for own, limit := range map[bool]string{true: "perIndex", false: "global"} {
		j.indexes[own] = results{indexes.WithLabelValues(result(false), limit), indexes.WithLabelValues(result(true), limit)}
	}
	return j
}

// Synced counts a sync of a Job that has not ended, with what was done about its pods.
func (j *Metrics) Synced(mode batchv1.CompletionMode, did Action, err error, took time.Duration) {
	s := j.synced.Of(jobSync{mode, did, err != nil})
	s.number.Inc()
	s.took.Observe(took.Seconds())
}

// Finished counts a Job that has succeeded or failed.
func (j *Metrics) Finished(mode batchv1.CompletionMode, succeeded bool, reason string) {
	j.finished.Of(jobEnd{mode, succeeded, reason}).Inc()
}

// Pods counts how many more pods of a Job have ended.
func (j *Metrics) Pods(mode batchv1.CompletionMode, succeeded, failed int) {
	if r, ok := j.pods[mode]; ok {
		r.add(succeeded, failed)
	}
}

// Indexes counts how many more indexes of a Job have ended. limited is set if each index has a limit of its own for
// failures.
func (j *Metrics) Indexes(limited bool, succeeded, failed int) {
	j.indexes[limited].add(succeeded, failed)
}

// Created counts an attempt to create a pod.
func (j *Metrics) Created(why Why, err error) { j.created.Of(jobPod{why, err != nil}).Inc() }

// Judged counts a rule of a pod failure policy that applies to a pod.
func (j *Metrics) Judged(action batchv1.PodFailurePolicyAction) { j.judged.Of(action).Inc() }

// Tracked counts a pod with the finalizer that has ended, and one that loses it.
func (j *Metrics) Tracked(tracked bool) { j.tracked[tracked].Inc() }

// Delegated counts a new Job that another controller manages. Such Jobs are rare.
func (j *Metrics) Delegated(to string) { j.others.WithLabelValues(to).Inc() }

// Expired counts a finished Job that was deleted, with how much later than its time.
func (j *Metrics) Expired(late time.Duration) { j.expired.Observe(late.Seconds()) }
