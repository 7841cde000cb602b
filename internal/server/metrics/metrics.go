package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apimachinery/pkg/version"

	"github.com/millrace/millrace/internal/server/apiserver"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// Options says what is measured. Nil fields are omitted.
type Options struct {
	// Registry gets the metrics; nil makes one.
	Registry *prometheus.Registry
	Cache    *watchcache.Cache
	// InFlight returns the number of requests that are being served, without watches.
	InFlight func() (reading, changing int)
	Version  version.Info
}

// Metrics are the metrics of one cluster.
type Metrics struct {
	// Registry accepts further collectors of the cluster.
	Registry *prometheus.Registry
	requests *requests
}

// New makes the metrics of a cluster.
func New(o Options) *Metrics {
	m := &Metrics{Registry: o.Registry, requests: newRequests()}
	if m.Registry == nil {
		m.Registry = prometheus.NewRegistry()
	}
	m.Registry.MustRegister(m.requests, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), build(o.Version))
	if o.Cache != nil {
		m.Registry.MustRegister(&cached{o.Cache})
	}
	if o.InFlight != nil {
		m.Registry.MustRegister(inFlight(o.InFlight))
	}
	return m
}

// Requests returns the receiver of the API server's request counts.
func (m *Metrics) Requests() apiserver.Metrics { return m.requests }

// Handler serves the metrics in the text format of Prometheus or OpenMetrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.Registry, promhttp.HandlerOpts{EnableOpenMetrics: true, ErrorHandling: promhttp.ContinueOnError})
}

func build(v version.Info) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "kubernetes_build_info", Help: "Build information: version, commit, date, Go, compiler, platform.",
		ConstLabels: prometheus.Labels{
			"major": v.Major, "minor": v.Minor, "git_version": v.GitVersion, "git_commit": v.GitCommit, "git_tree_state": v.GitTreeState,
			"build_date": v.BuildDate, "go_version": v.GoVersion, "compiler": v.Compiler, "platform": v.Platform,
		},
	}, func() float64 { return 1 })
}

var inFlightRequests = describe("apiserver_current_inflight_requests", "Requests that are being served now, without watches.", "request_kind")

// inFlight reads the number of requests from the server.
type inFlight func() (reading, changing int)

// Describe implements prometheus.Collector.
func (inFlight) Describe(out chan<- *prometheus.Desc) { out <- inFlightRequests }

// Collect implements prometheus.Collector.
func (f inFlight) Collect(out chan<- prometheus.Metric) {
	reading, changing := f()
	out <- prometheus.MustNewConstMetric(inFlightRequests, prometheus.GaugeValue, float64(reading), "readOnly")
	out <- prometheus.MustNewConstMetric(inFlightRequests, prometheus.GaugeValue, float64(changing), "mutating")
}
