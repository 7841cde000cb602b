package prommetrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
)

// jobs is a job.Metrics.
type jobs struct {
	finished, pods *prometheus.CounterVec
	counted        map[batchv1.CompletionMode]podCounters

	mu   sync.Mutex // guards ends
	ends map[end]prometheus.Counter
}

type podCounters struct{ succeeded, failed prometheus.Counter }

// end is how a Job ends.
type end struct {
	mode      batchv1.CompletionMode
	succeeded bool
	reason    string
}

func newJobs() *jobs {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: "job_controller", Name: name, Help: help}, labels)
	}
	j := &jobs{
		finished: counter("jobs_finished_total", "Number of Jobs that have ended, by their completion mode, the result and the reason.", "completion_mode", "result", "reason"),
		pods:     counter("job_pods_finished_total", "Number of pods that have ended and were counted in their Job's status.", "completion_mode", "result"),
		counted:  map[batchv1.CompletionMode]podCounters{}, ends: map[end]prometheus.Counter{},
	}
	for _, mode := range []batchv1.CompletionMode{batchv1.NonIndexedCompletion, batchv1.IndexedCompletion} {
		j.counted[mode] = podCounters{j.pods.WithLabelValues(string(mode), "succeeded"), j.pods.WithLabelValues(string(mode), "failed")}
	}
	return j
}

// Finished implements job.Metrics.
func (j *jobs) Finished(mode batchv1.CompletionMode, succeeded bool, reason string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	at := end{mode, succeeded, reason}
	c, ok := j.ends[at]
	if !ok {
		result := "failed"
		if succeeded {
			result = "succeeded"
		}
		c = j.finished.WithLabelValues(string(mode), result, reason)
		j.ends[at] = c
	}
	c.Inc()
}

// Pods implements job.Metrics.
func (j *jobs) Pods(mode batchv1.CompletionMode, succeeded, failed int) {
	c, ok := j.counted[mode]
	if !ok {
		return
	}
	c.succeeded.Add(float64(max(succeeded, 0)))
	c.failed.Add(float64(max(failed, 0)))
}

// cronJobs is a cronjob.Metrics.
type cronJobs struct{ late prometheus.Histogram }

func newCronJobs() *cronJobs {
	return &cronJobs{prometheus.NewHistogram(prometheus.HistogramOpts{
		Subsystem: "cronjob_controller", Name: "job_creation_skew_duration_seconds",
		Help: "How long in seconds after its scheduled time a Job is made.", Buckets: prometheus.ExponentialBuckets(1, 2, 10),
	})}
}

// Started implements cronjob.Metrics.
func (c *cronJobs) Started(late time.Duration) { c.late.Observe(late.Seconds()) }
