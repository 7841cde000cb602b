package metrics

import (
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/server/apiserver"
)

// requests counts requests by their labels. It is the apiserver.Metrics.
type requests struct {
	mu     sync.Mutex // held while a meter is added
	meters atomic.Pointer[map[apiserver.Labels]*meter]
	kinds  map[resourceLabels]*watched // guarded by mu
}

// resourceLabels identify the resource of a watch.
type resourceLabels struct{ group, version, resource string }

// watched counts the events of all watches of one resource.
type watched struct {
	initial atomic.Uint64
	sizes   *histogram
}

// meter counts the requests that have all labels in common.
type meter struct {
	labels    apiserver.Labels
	codes     [len(codes)]atomic.Uint64
	durations *histogram
	sizes     *histogram // of answers; nil for verbs that do not read
	unwaited  *histogram // what the durations are without the time in queues, less the durations themselves
	open      atomic.Int64
	watched   *watched
}

var (
	durationScale = seconds(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60)
	sizeScale     = bytes(1000, 10, 7)
	eventScale    = bytes(1024, 2, 8)
)

// codes are the status codes that have a counter of their own. Other codes count as the first of their class, such as
// 400.
var codes = [...]int{100, 101, 200, 201, 202, 204, 206, 300, 301, 302, 304, 307, 400, 401, 403, 404, 405, 406, 408, 409, 410, 413, 415, 422, 429, 500, 501,
	502, 503, 504}

// codeIndex maps a status code to its index in codes.
var codeIndex = func() (at [600]uint8) {
	for code := range at {
		for i, c := range codes {
			if c == code || c == code/100*100 {
				at[code] = uint8(i)
			}
			if c == code {
				break
			}
		}
	}
	return at
}()

func newRequests() *requests {
	r := &requests{kinds: map[resourceLabels]*watched{}}
	r.meters.Store(&map[apiserver.Labels]*meter{})
	return r
}

// Meter implements apiserver.Metrics.
func (r *requests) Meter(l apiserver.Labels) apiserver.Meter {
	if m, ok := (*r.meters.Load())[l]; ok {
		return m
	}
	return r.add(l)
}

func (r *requests) add(l apiserver.Labels) *meter {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := *r.meters.Load()
	if m, ok := old[l]; ok {
		return m
	}
	// Labels may be substrings of a request's path, which must not be kept in memory.
	l.Group, l.Version, l.Resource, l.Subresource = strings.Clone(l.Group), strings.Clone(l.Version), strings.Clone(l.Resource), strings.Clone(l.Subresource)
	m := &meter{labels: l, durations: newHistogram(durationScale), unwaited: newHistogram(durationScale)}
	if l.Verb == "GET" || l.Verb == "LIST" {
		m.sizes = newHistogram(sizeScale)
	}
	if l.Verb == "WATCH" {
		m.watched = r.watchedLocked(resourceLabels{l.Group, l.Version, l.Resource})
	}
	grown := maps.Clone(old)
	grown[l] = m
	r.meters.Store(&grown)
	return m
}

func (r *requests) watchedLocked(l resourceLabels) *watched {
	w := r.kinds[l]
	if w == nil {
		w = &watched{sizes: newHistogram(eventScale)}
		r.kinds[l] = w
	}
	return w
}

// Started implements apiserver.Meter.
func (m *meter) Started() {
	if m.labels.LongRunning {
		m.open.Add(1)
	}
}

// Finished implements apiserver.Meter.
func (m *meter) Finished(code int, bytes int64, took, waited time.Duration) {
	if code <= 0 || code >= len(codeIndex) {
		code = 200 // the handler set no status, which means success, or took over the connection
	}
	m.codes[codeIndex[code]].Add(1)
	m.durations.observe(durationScale, int64(took))
	if waited > 0 {
		m.unwaited.move(durationScale, int64(took), int64(max(took-waited, 0)))
	}
	if m.sizes != nil {
		m.sizes.observe(sizeScale, bytes)
	}
	if m.labels.LongRunning {
		m.open.Add(-1)
	}
}

// Sent implements apiserver.Meter.
func (m *meter) Sent(bytes int) {
	if m.watched != nil {
		m.watched.sizes.observe(eventScale, int64(bytes))
	}
}

// Initial implements apiserver.Meter.
func (m *meter) Initial(events int) {
	if m.watched != nil {
		m.watched.initial.Add(uint64(events))
	}
}

var (
	requestLabels = []string{"verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"}
	routeLabels   = []string{"verb", "group", "version", "resource", "subresource", "scope", "component"}

	requestTotal = describe("apiserver_request_total",
		"Requests by verb, dry run, group, version, resource, subresource, scope, component, and status code.", append(requestLabels, "code")...)
	requestDuration = describe("apiserver_request_duration_seconds", "How long requests took, in seconds.", requestLabels...)
	responseSizes   = describe("apiserver_response_sizes", "Sizes of responses to reads, in bytes.", routeLabels...)
	longRunning     = describe("apiserver_longrunning_requests", "Open watches and connections.", routeLabels...)
	watchEvents     = describe("apiserver_watch_events_total", "Events sent on watches.", "group", "version", "resource")
	watchSizes      = describe("apiserver_watch_events_sizes", "Sizes of events sent on watches, in bytes.", "group", "version", "resource")
	initialEvents   = describe("apiserver_init_events_total", "Initial events sent on watches.", kindLabels...)
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (r *requests) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{requestTotal, requestDuration, responseSizes, longRunning, watchEvents, watchSizes, initialEvents,
		sliDuration, terminations, deprecated, authentications} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (r *requests) Collect(out chan<- prometheus.Metric) {
	meters := *r.meters.Load()
	for _, m := range meters {
		m.collect(out)
	}
	routes := byRoute(meters)
	collectDeprecated(out, routes)
	collectAuthentications(out, meters)
	for l, all := range routes {
		collectRoute(out, l, all)
	}
	r.mu.Lock()
	kinds := maps.Clone(r.kinds)
	r.mu.Unlock()
	initial := map[[2]string]uint64{}
	for l, w := range kinds {
		initial[[2]string{l.group, l.resource}] += w.initial.Load()
		var events uint64
		for i := range w.sizes.counts {
			events += w.sizes.counts[i].Load()
		}
		labels := []string{l.group, l.version, l.resource}
		out <- prometheus.MustNewConstMetric(watchEvents, prometheus.CounterValue, float64(events), labels...)
		out <- w.sizes.metric(watchSizes, eventScale, labels...)
	}
	for kind, n := range initial {
		out <- prometheus.MustNewConstMetric(initialEvents, prometheus.CounterValue, float64(n), kind[:]...)
	}
}

func (m *meter) collect(out chan<- prometheus.Metric) {
	l := &m.labels
	dryRun := ""
	if l.DryRun {
		dryRun = "All"
	}
	request := []string{l.Verb, dryRun, l.Group, l.Version, l.Resource, l.Subresource, l.Scope, "apiserver"}
	route := []string{l.Verb, l.Group, l.Version, l.Resource, l.Subresource, l.Scope, "apiserver"}
	for i := range m.codes {
		if n := m.codes[i].Load(); n > 0 {
			out <- prometheus.MustNewConstMetric(requestTotal, prometheus.CounterValue, float64(n), append(request, strconv.Itoa(codes[i]))...)
		}
	}
	if !m.durations.empty() {
		out <- m.durations.metric(requestDuration, durationScale, request...)
	}
	if m.sizes != nil && !m.sizes.empty() {
		out <- m.sizes.metric(responseSizes, sizeScale, route...)
	}
	if l.LongRunning {
		out <- prometheus.MustNewConstMetric(longRunning, prometheus.GaugeValue, float64(m.open.Load()), route...)
	}
}
