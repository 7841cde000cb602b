package metrics

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/version"

	"github.com/millrace/millrace/internal/scheduler"
	schedulermetrics "github.com/millrace/millrace/internal/scheduler/prommetrics"
	"github.com/millrace/millrace/internal/server/apiserver"
	"github.com/millrace/millrace/internal/server/store/memory"
	"github.com/millrace/millrace/internal/server/watchcache"
	"github.com/millrace/millrace/queue"
	"github.com/millrace/millrace/queue/prommetrics"
)

var (
	getPod  = apiserver.Labels{Verb: "GET", Version: "v1", Resource: "pods", Scope: "resource"}
	putJob  = apiserver.Labels{Verb: "PUT", Group: "batch", Version: "v1", Resource: "jobs", Subresource: "status", Scope: "resource", DryRun: true}
	watchOn = apiserver.Labels{Verb: "WATCH", Version: "v1", Resource: "pods", Scope: "cluster", LongRunning: true}
	watchIn = apiserver.Labels{Verb: "WATCH", Version: "v1", Resource: "pods", Scope: "namespace", LongRunning: true}
)

func read(t *testing.T, m *Metrics, accept string) string {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, r)
	text, err := io.ReadAll(w.Body)
	if err != nil || w.Code != http.StatusOK {
		t.Fatal(w.Code, err, string(text))
	}
	return string(text)
}

func has(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, l := range lines {
		if !strings.Contains(text, l+"\n") {
			name, _, _ := strings.Cut(l, "{")
			t.Errorf("missing: %s", l)
			for got := range strings.Lines(text) {
				if strings.HasPrefix(got, name) {
					t.Logf("    got: %s", got)
				}
			}
		}
	}
}

func TestRequestsAreCountedUnderKubernetesNames(t *testing.T) {
	m := New(Options{InFlight: func() (int, int) { return 3, 2 }, Version: version.Info{GitVersion: "v1.37.0"}})
	one := m.Requests().Meter(getPod)
	for range 3 {
		one.Started()
		one.Finished(200, 5000, 30*time.Millisecond, 0)
	}
	one.Finished(404, 100, time.Millisecond, 0)
	m.Requests().Meter(putJob).Finished(409, 100, 2*time.Second, 0)
	m.Requests().Meter(putJob).Finished(401, 100, time.Millisecond, 0)
	for _, l := range []apiserver.Labels{watchOn, watchIn} {
		w := m.Requests().Meter(l)
		w.Started()
		w.Initial(7)
		w.Sent(500)
		w.Sent(3000)
	}
	has(t, read(t, m, ""),
		`apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="GET",version="v1"} 3`,
		`apiserver_request_total{code="404",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="GET",version="v1"} 1`,
		`apiserver_request_total{code="409",component="apiserver",dry_run="All",group="batch",resource="jobs",scope="resource",subresource="status",verb="PUT",version="v1"} 1`,
		`apiserver_request_duration_seconds_bucket{component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="GET",version="v1",le="0.005"} 1`,
		`apiserver_request_duration_seconds_bucket{component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="GET",version="v1",le="0.05"} 4`,
		`apiserver_response_sizes_bucket{component="apiserver",group="",resource="pods",scope="resource",subresource="",verb="GET",version="v1",le="1000"} 1`,
		`apiserver_response_sizes_count{component="apiserver",group="",resource="pods",scope="resource",subresource="",verb="GET",version="v1"} 4`,
		`apiserver_longrunning_requests{component="apiserver",group="",resource="pods",scope="cluster",subresource="",verb="WATCH",version="v1"} 1`,
		`apiserver_watch_events_total{group="",resource="pods",version="v1"} 4`,
		`apiserver_watch_events_sizes_bucket{group="",resource="pods",version="v1",le="1024"} 2`,
		`apiserver_watch_events_sizes_sum{group="",resource="pods",version="v1"} 7000`,
		`apiserver_init_events_total{group="",resource="pods"} 14`,
		`authentication_attempts{result="failure"} 1`,
		`apiserver_current_inflight_requests{request_kind="mutating"} 2`,
		`apiserver_current_inflight_requests{request_kind="readOnly"} 3`,
	)
}

func TestOpenMetricsAreServedOnRequest(t *testing.T) {
	m := New(Options{})
	if text := read(t, m, "application/openmetrics-text; version=1.0.0"); !strings.HasSuffix(text, "# EOF\n") {
		t.Error("that is not OpenMetrics")
	}
	if text := read(t, m, ""); strings.Contains(text, "# EOF") || !strings.Contains(text, "go_goroutines") || !strings.Contains(text, "process_start_time_seconds") {
		t.Error("that is not the plain text")
	}
}

func TestAllPartsFitIntoOneRegistry(t *testing.T) {
	cache := watchcache.New(memory.New(memory.Options{}), watchcache.Options{Root: "/registry/"})
	m := New(Options{Cache: cache})
	queues, err := prommetrics.New(m.Registry)
	if err != nil {
		t.Fatal(err)
	}
	decisions, err := schedulermetrics.New(m.Registry)
	if err != nil {
		t.Fatal(err)
	}
	queues.Queue("jobs", func() queue.State { return queue.State{} })
	decisions.Attempt("default-scheduler", scheduler.Scheduled, time.Millisecond)
	decisions.Bound(20, time.Second, false)
	decisions.Pending("active", 3)
	lint := prometheus.NewPedanticRegistry()
	lint.MustRegister(m.requests, &cached{cache}, queues)
	has(t, read(t, m, ""),
		`scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 1`,
		`scheduler_pod_scheduling_sli_duration_seconds_count{attempts="15+"} 1`,
		`scheduler_pending_pods{queue="active"} 3`,
		`workqueue_depth{name="jobs"} 0`,
	)
	if _, err := lint.Gather(); err != nil {
		t.Error(err)
	}
}

func TestCommonStatusCodesHaveTheirOwnCounter(t *testing.T) {
	for code, want := range map[int]int{200: 200, 201: 201, 299: 200, 404: 404, 418: 400, 504: 504, 599: 500, 101: 101, 308: 300} {
		if got := codes[codeIndex[code]]; got != want {
			t.Errorf("%d counts as %d", code, got)
		}
	}
}

func BenchmarkRequest(b *testing.B) {
	r := newRequests()
	for _, verb := range []string{"GET", "LIST", "POST", "PUT", "PATCH", "DELETE"} {
		for _, resource := range []string{"pods", "nodes", "leases", "endpoints", "events", "secrets"} {
			r.Meter(apiserver.Labels{Verb: verb, Version: "v1", Resource: resource, Scope: "namespace"})
		}
	}
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			m := r.Meter(getPod)
			m.Started()
			m.Finished(200, 5000, 300*time.Microsecond, 0)
		}
	})
}

func BenchmarkEvent(b *testing.B) {
	m := newRequests().Meter(watchOn)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			m.Sent(6000)
		}
	})
}
