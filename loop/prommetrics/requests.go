// Package prommetrics counts the requests and elections of a process for Prometheus, under the names of Kubernetes'
// components: rest_client_requests_total, leader_election_master_status and so on.
//
// What is guaranteed: measuring a request looks its counters up once for each method and status code; after that it
// adds to them. The label host is the API server's.
package prommetrics

import (
	"cmp"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
)

// Requests counts the requests of clients.
type Requests struct {
	requests     *prometheus.CounterVec
	took, waited *prometheus.HistogramVec
	size, answer *prometheus.HistogramVec
}

// NewRequests makes the metrics and registers them.
func NewRequests(r prometheus.Registerer) (*Requests, error) {
	perVerb := []string{"verb", "host"}
	seconds := []float64{0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60}
	bytes := []float64{64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216}
	m := &Requests{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rest_client_requests_total", Help: "Number of HTTP requests, by status code, method and host.",
		}, []string{"code", "method", "host"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rest_client_request_duration_seconds", Help: "Seconds until a request is answered, by verb and host.", Buckets: seconds,
		}, perVerb),
		waited: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rest_client_rate_limiter_duration_seconds", Help: "Seconds that a request waits for the client's rate limit, by verb and host.", Buckets: seconds,
		}, perVerb),
		size: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rest_client_request_size_bytes", Help: "Size of requests' bodies, by verb and host.", Buckets: bytes,
		}, perVerb),
		answer: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rest_client_response_size_bytes", Help: "Size of answers that say it ahead, by verb and host. Watches do not.", Buckets: bytes,
		}, perVerb),
	}
	for _, c := range []prometheus.Collector{m.requests, m.took, m.waited, m.size, m.answer} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Measure counts the requests of clients that are made from the configuration. The returned function takes the time
// that a request has waited for a rate limit.
func (m *Requests) Measure(config *rest.Config) (waited func(method string, took time.Duration)) {
	host := config.Host
	if u, _, err := rest.DefaultServerUrlFor(config); err == nil {
		host = u.Host
	}
	meter := &meter{m: m, host: host, verbs: map[string]*verb{}}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &measured{next, meter} })
	return func(method string, took time.Duration) { meter.verb(method).waited.Observe(took.Seconds()) }
}

// meter has the counters for one host.
type meter struct {
	m    *Requests
	host string

	mu    sync.RWMutex // guards verbs
	verbs map[string]*verb
}

// verb has the counters of one method. Codes are found by their number: 0 means that there was no answer.
type verb struct {
	took, waited, size, answer prometheus.Observer

	mu    sync.RWMutex // guards codes
	codes map[int]prometheus.Counter
}

func (m *meter) verb(method string) *verb {
	m.mu.RLock()
	v, ok := m.verbs[method]
	m.mu.RUnlock()
	if ok {
		return v
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, ok := m.verbs[method]; ok {
		return v
	}
	v = &verb{
		took: m.m.took.WithLabelValues(method, m.host), waited: m.m.waited.WithLabelValues(method, m.host),
		size: m.m.size.WithLabelValues(method, m.host), answer: m.m.answer.WithLabelValues(method, m.host), codes: map[int]prometheus.Counter{},
	}
	m.verbs[method] = v
	return v
}

func (m *meter) count(method string, v *verb, code int) prometheus.Counter {
	v.mu.RLock()
	c, ok := v.codes[code]
	v.mu.RUnlock()
	if ok {
		return c
	}
	label := "<error>"
	if code != 0 {
		label = strconv.Itoa(code)
	}
	c = m.m.requests.WithLabelValues(label, method, m.host)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.codes[code] = c
	return c
}

type measured struct {
	next  http.RoundTripper
	meter *meter
}

// RoundTrip implements http.RoundTripper.
func (m *measured) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	answer, err := m.next.RoundTrip(r)
	method, code := cmp.Or(r.Method, http.MethodGet), 0
	if err == nil {
		code = answer.StatusCode
	}
	v := m.meter.verb(method)
	m.meter.count(method, v, code).Inc()
	v.took.Observe(time.Since(began).Seconds())
	v.size.Observe(float64(max(r.ContentLength, 0)))
	if err == nil && answer.ContentLength >= 0 {
		v.answer.Observe(float64(answer.ContentLength))
	}
	return answer, err
}
