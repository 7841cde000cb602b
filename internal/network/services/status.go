//go:build linux

package services

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// healthTimeout is how long a change may wait before the proxy counts as unhealthy: two of kube-proxy's sync periods.
const healthTimeout = time.Minute

// status records whether the proxy keeps up. A load balancer sends no traffic to the node of a proxy that does not.
type status struct {
	mu         sync.Mutex // guards the rest
	synced     time.Time  // the end of the last sync that succeeded; zero: none yet
	waiting    time.Time  // when the oldest change came that is not written yet; zero: all are written
	ineligible bool       // the node is being removed
}

// queued records that there is a change.
func (s *status) queued() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting.IsZero() {
		s.waiting = time.Now()
	}
}

// begin returns since when the changes of the next sync have waited.
func (s *status) begin() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := s.waiting
	s.waiting = time.Time{}
	return since
}

// end records the result of a sync.
func (s *status) end(since time.Time, failed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !failed {
		s.synced = time.Now()
	} else if !since.IsZero() {
		s.waiting = since
	}
}

func (s *status) setLeaving(leaving bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ineligible = leaving
}

// healthy reports whether all changes have been written, or none has waited for too long.
func (s *status) healthy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.healthyLocked(time.Now())
}

func (s *status) healthyLocked(now time.Time) bool {
	return !s.synced.IsZero() && (s.waiting.IsZero() || now.Sub(s.waiting) < healthTimeout)
}

// familyReport and report are the body of kube-proxy's answers.
type familyReport struct {
	LastUpdated time.Time `json:"lastUpdated"`
	Healthy     bool      `json:"healthy"`
}

type report struct {
	LastUpdated  time.Time               `json:"lastUpdated"`
	CurrentTime  time.Time               `json:"currentTime"`
	NodeEligible *bool                   `json:"nodeEligible,omitempty"`
	Healthy      bool                    `json:"healthy"`
	Status       map[string]familyReport `json:"status"`
}

// report returns the body, and whether the proxy is healthy. withNode includes whether the node may get traffic.
func (s *status) report(withNode bool) (r report, healthy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	healthy = s.healthyLocked(now)
	r = report{LastUpdated: s.synced, CurrentTime: now, Healthy: healthy, Status: map[string]familyReport{}}
	if healthy {
		r.LastUpdated = now
	}
	for _, family := range families {
		r.Status[family] = familyReport{s.synced, healthy}
	}
	if withNode {
		eligible := !s.ineligible
		r.NodeEligible = &eligible
		healthy = healthy && eligible
	}
	return r, healthy
}

// Health serves /healthz and /livez as kube-proxy does: 503 if changes have waited for a minute, and /healthz also if
// the node is being removed. It registers the counters of both.
func (p *Proxy) Health(r prometheus.Registerer) (http.Handler, error) {
	mux := http.NewServeMux()
	for _, path := range []string{"healthz", "livez"} {
		answers := prometheus.NewCounterVec(prometheus.CounterOpts{
			Subsystem: subsystem, Name: "proxy_" + path + "_total", Help: "Cumulative proxy " + path + " HTTP status",
		}, []string{"code"})
		if err := r.Register(answers); err != nil {
			return nil, err
		}
		mux.HandleFunc("/"+path, func(w http.ResponseWriter, _ *http.Request) {
			body, healthy := p.status.report(path == "healthz")
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			code := "200"
			if !healthy {
				code = "503"
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			answers.WithLabelValues(code).Inc()
			_ = json.NewEncoder(w).Encode(body) // an error means that the client has disconnected
		})
	}
	return mux, nil
}
