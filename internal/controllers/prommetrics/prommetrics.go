// Package prommetrics counts what control loops do for Prometheus, under the names that kube-controller-manager uses:
// job_controller_jobs_finished_total, node_collector_zone_size and so on.
//
// What is guaranteed: a loop that counts something often looks no counter up by its labels, except once for each new
// combination of them. What the loops only know, such as the number of nodes, is counted when somebody asks.
package prommetrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/controllers"
	"github.com/millrace/millrace/internal/controllers/attachdetach"
	"github.com/millrace/millrace/internal/controllers/cronjob"
	"github.com/millrace/millrace/internal/controllers/endpointslice"
	"github.com/millrace/millrace/internal/controllers/endpointslicemirroring"
	"github.com/millrace/millrace/internal/controllers/internal/meter"
	"github.com/millrace/millrace/internal/controllers/job"
	"github.com/millrace/millrace/internal/controllers/nodeipam"
	"github.com/millrace/millrace/internal/controllers/nodelifecycle"
	"github.com/millrace/millrace/internal/controllers/persistentvolume"
	"github.com/millrace/millrace/internal/controllers/podautoscaler"
	"github.com/millrace/millrace/internal/controllers/resourceclaim"
)

// Measure registers the metrics of all loops, and sets the options so that the loops count.
func Measure(o *controllers.Options, r prometheus.Registerer) error {
	m := meter.New(r)
	o.Claims.Metrics = resourceclaim.NewMetrics(m)
	o.Jobs.Metrics, o.CronJobs.Metrics = job.NewMetrics(m), cronjob.NewMetrics(m)
	o.Nodes.Metrics, o.Ranges.Metrics = nodelifecycle.NewMetrics(m), nodeipam.NewMetrics(m)
	o.Slices.Metrics, o.Mirrors.Metrics = endpointslice.NewMetrics(m), endpointslicemirroring.NewMetrics(m)
	o.Autoscaling.Metrics = podautoscaler.NewMetrics(m)
	o.Claiming.Metrics, o.Attaching.Metrics = persistentvolume.NewMetrics(m), attachdetach.NewMetrics(m)
	o.Ephemeral.Created = claimed(m)
	o.Publishing.Synced, o.Bundling.Synced = published(m, "root_ca_cert_publisher"), published(m, "clustertrustbundle_publisher")
	o.Evictions.Evicted, o.DeviceEvictions.Evicted = evicted(m, "taint_eviction_controller"), evicted(m, "device_taint_eviction_controller")
	o.Pods.Deleted = collected(m)
	o.StatefulSets.Count = unavailable(m)
	o.Garbage.NotDiscovered = m.Counter("garbagecollector_controller", "resources_sync_error_total", "Number of times that kinds could not be discovered.").Inc
	o.ReplicaSets.Chosen = m.Histogram("replicaset_controller", "sorting_deletion_age_ratio",
		"Age of a ready pod that is deleted because there are too many, as a multiple of the age of the youngest one.", prometheus.ExponentialBuckets(0.25, 2, 6)).Observe
	return m.Err()
}

// Runs returns a function for the field of that name of a [loop.Group], which counts the loops of a program that run.
func Runs(r prometheus.Registerer, program string) (func(name string, runs bool), error) {
	running := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "running_managed_controllers", Help: "Whether a loop runs in this process: 1 or 0.", ConstLabels: prometheus.Labels{"manager": program},
	}, []string{"name"})
	return func(name string, runs bool) {
		value := 0.0
		if runs {
			value = 1
		}
		running.WithLabelValues(name).Set(value)
	}, r.Register(running)
}
