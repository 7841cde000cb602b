// Package reload tells how the files of authentication and authorization are read again, by kube-apiserver's metrics.
package reload

import (
	"crypto/sha256"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are about one file.
type Metrics struct {
	server string // its hash
	total  *prometheus.CounterVec
	last   *prometheus.GaugeVec
	info   *prometheus.Desc

	mu   sync.Mutex // guards text
	text string     // hash of the configuration in use, empty without a file
}

// New makes the metrics of a kind of configuration, "authentication" or "authorization", on a server.
func New(kind, server string) *Metrics {
	prefix, labels := "apiserver_"+kind+"_config_controller_", []string{"status", "apiserver_id_hash"}
	return &Metrics{
		server: Hash(server),
		total: prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + "automatic_reloads_total",
			Help: "Total number of automatic reloads of " + kind + " configuration split by status and apiserver identity."}, labels),
		last: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + "automatic_reload_last_timestamp_seconds",
			Help: "Timestamp of the last automatic reload of " + kind + " configuration split by status and apiserver identity."}, labels),
		info: prometheus.NewDesc(prefix+"last_config_info",
			"Information about the last applied "+kind+" configuration with hash as label, split by apiserver identity.", []string{"apiserver_id_hash", "hash"}, nil),
	}
}

// Hash is how metrics name what is long or private.
func Hash(text string) string {
	if text == "" {
		return ""
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text)))
}

// Result is how metrics name an outcome.
func Result(ok bool) string {
	if ok {
		return "success"
	}
	return "failure"
}

// Using notes the configuration that is in use.
func (m *Metrics) Using(text []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.text = Hash(string(text))
}

// Reloaded counts a configuration that was read again.
func (m *Metrics) Reloaded(text []byte) {
	m.count(true)
	m.Using(text)
}

// Failed counts one that could not be used.
func (m *Metrics) Failed() { m.count(false) }

func (m *Metrics) count(ok bool) {
	m.total.WithLabelValues(Result(ok), m.server).Inc()
	m.last.WithLabelValues(Result(ok), m.server).SetToCurrentTime()
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	m.total.Describe(ch)
	m.last.Describe(ch)
	ch <- m.info
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.total.Collect(ch)
	m.last.Collect(ch)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.text != "" {
		ch <- prometheus.MustNewConstMetric(m.info, prometheus.GaugeValue, 1, m.server, m.text)
	}
}
