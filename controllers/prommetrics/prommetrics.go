// Package prommetrics counts what control loops do for Prometheus, under the names that kube-controller-manager uses:
// job_controller_jobs_finished_total, node_collector_zone_size and so on.
//
// What is guaranteed: a loop that counts something looks no counter up by its labels, except once for each new reason why Jobs end and each
// new zone. What the loops only know, such as the number of nodes, is counted when somebody asks.
package prommetrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/controllers"
	claims "github.com/millrace/millrace/controllers/resourceclaim/prommetrics"
)

// Measure registers the metrics of all loops, and sets the options so that the loops count.
func Measure(o *controllers.Options, r prometheus.Registerer) (err error) {
	if o.Claims.Metrics, err = claims.New(r); err != nil {
		return err
	}
	jobs, cronJobs, nodes := newJobs(), newCronJobs(), newNodes()
	for _, c := range []prometheus.Collector{jobs.finished, jobs.pods, cronJobs.late, nodes} {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	o.Jobs.Metrics, o.CronJobs.Metrics, o.Nodes.Metrics = jobs, cronJobs, nodes
	return nil
}
