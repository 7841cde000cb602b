package oidc

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/server/auth/reload"
)

// metrics are what kube-apiserver tells of tokens, keys and the configuration, under the same names.
type metrics struct {
	server  string // its hash
	latency *prometheus.HistogramVec
	fetches *fetches
	reloads *reload.Metrics
}

// fetches tell of the keys of issuers.
type fetches struct {
	server string
	at     *prometheus.GaugeVec

	mu   sync.Mutex        // guards keys
	keys map[string]string // hash of the keys, by hash of the issuer
}

var keysInfo = prometheus.NewDesc("apiserver_authentication_jwt_authenticator_jwks_fetch_last_key_set_info",
	"Information about the last JWKS fetched by the JWT authenticator with hash as label, split by api server identity and jwt issuer.",
	[]string{"jwt_issuer_hash", "apiserver_id_hash", "hash"}, nil)

func newMetrics(server string) *metrics {
	m := &metrics{
		server: reload.Hash(server),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "apiserver_authentication_jwt_authenticator_latency_seconds",
			Help:    "Latency of jwt authentication operations in seconds, for tokens that are not remembered.",
			Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"result", "jwt_issuer_hash"}),
		reloads: reload.New("authentication", server),
	}
	m.fetches = &fetches{server: m.server, keys: map[string]string{}, at: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "apiserver_authentication_jwt_authenticator_jwks_fetch_last_timestamp_seconds",
		Help: "Timestamp of the last successful or failed JWKS fetch split by result, api server identity and jwt issuer for the JWT authenticator.",
	}, []string{"result", "jwt_issuer_hash", "apiserver_id_hash"})}
	return m
}

func (m *metrics) checked(issuer string, err error, took time.Duration) {
	m.latency.WithLabelValues(reload.Result(err == nil), reload.Hash(issuer)).Observe(took.Seconds())
}

func (f *fetches) failed(issuer string) {
	f.at.WithLabelValues(reload.Result(false), reload.Hash(issuer), f.server).SetToCurrentTime()
}

func (f *fetches) fetched(issuer string, keys []byte) {
	f.at.WithLabelValues(reload.Result(true), reload.Hash(issuer), f.server).SetToCurrentTime()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keys[reload.Hash(issuer)] = reload.Hash(string(keys))
}

func (f *fetches) forget(issuer string) {
	for _, ok := range []bool{true, false} {
		f.at.DeleteLabelValues(reload.Result(ok), reload.Hash(issuer), f.server)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.keys, reload.Hash(issuer))
}

// Describe implements prometheus.Collector.
func (t *Tokens) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(t, ch) }

// Collect implements prometheus.Collector.
func (t *Tokens) Collect(ch chan<- prometheus.Metric) {
	m := t.metrics
	for _, c := range []prometheus.Collector{m.latency, m.reloads, m.fetches.at} {
		c.Collect(ch)
	}
	m.fetches.mu.Lock()
	defer m.fetches.mu.Unlock()
	for issuer, keys := range m.fetches.keys {
		ch <- prometheus.MustNewConstMetric(keysInfo, prometheus.GaugeValue, 1, issuer, m.server, keys)
	}
}
