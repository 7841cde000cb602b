// Package prommetrics counts what control loops do for Prometheus, under the names that kube-controller-manager uses:
// job_controller_jobs_finished_total, node_collector_zone_size and so on.
//
// What is guaranteed: a loop that counts something often looks no counter up by its labels, except once for each new
// combination of them. What the loops only know, such as the number of nodes, is counted when somebody asks.
package prommetrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/controllers"
	claims "github.com/millrace/millrace/internal/controllers/resourceclaim/prommetrics"
)

// Measure registers the metrics of all loops, and sets the options so that the loops count.
func Measure(o *controllers.Options, r prometheus.Registerer) (err error) {
	if o.Claims.Metrics, err = claims.New(r); err != nil {
		return err
	}
	m := &maker{r: r}
	o.Jobs.Metrics, o.CronJobs.Metrics = newJobs(m), newCronJobs(m)
	o.Nodes.Metrics, o.Ranges.Metrics = newNodes(m), newRanges(m)
	o.Slices.Metrics, o.Mirrors.Metrics = newServiceSlices(m), newMirrorSlices(m)
	o.Autoscaling.Metrics = newAutoscalers(m)
	o.Claiming.Metrics, o.Attaching.Metrics = newVolumes(m), newAttachments(m)
	o.Ephemeral.Created = claimed(m)
	o.Publishing.Synced, o.Bundling.Synced = published(m, "root_ca_cert_publisher"), published(m, "clustertrustbundle_publisher")
	o.Evictions.Evicted, o.DeviceEvictions.Evicted = evicted(m, "taint_eviction_controller"), evicted(m, "device_taint_eviction_controller")
	o.Pods.Deleted = collected(m)
	o.StatefulSets.Count = unavailable(m)
	o.Garbage.NotDiscovered = m.counter("garbagecollector_controller", "resources_sync_error_total", "Number of times that kinds could not be discovered.").Inc
	o.ReplicaSets.Chosen = m.histogram("replicaset_controller", "sorting_deletion_age_ratio",
		"Age of a ready pod that is deleted because there are too many, as a multiple of the age of the youngest one.", prometheus.ExponentialBuckets(0.25, 2, 6)).Observe
	return m.err
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
