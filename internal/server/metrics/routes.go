package metrics

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/server/apiserver"
)

// What is made of the meters when somebody asks, and costs requests nothing. These metrics have no label for dry runs.
var (
	sliDuration = describe("apiserver_request_sli_duration_seconds",
		"How long requests took without the time in queues, in seconds. Watches and connections are left out.", routeLabels...)
	terminations = describe("apiserver_request_terminations_total",
		"Requests that the server ended to protect itself: there were too many, or they took too long.", append(routeLabels, "code")...)
	deprecated = describe("apiserver_requested_deprecated_apis", "Deprecated APIs that were requested.",
		"group", "version", "resource", "subresource", "removed_release")
	authentications = describe("authentication_attempts", "Requests by whether it was known who made them.", "result")
)

// sliScale has the bounds of the durations from a twentieth of a second on.
var sliScale = scale{bounds: durationScale.bounds[sliFirst:], per: durationScale.per}

const sliFirst = 2

// deprecatedResources are those of stable versions: Kubernetes warns of them, and does not remove them.
var deprecatedResources = map[resourceLabels]bool{
	{"", "v1", "componentstatuses"}: true,
	{"", "v1", "endpoints"}:         true,
}

// terminating are the codes of requests that the server ended. An eviction that a budget does not allow has the first
// one, too, and is an answer.
var terminating = []int{http.StatusTooManyRequests, http.StatusGatewayTimeout}

// byRoute groups the meters that differ in dry runs alone.
func byRoute(meters map[apiserver.Labels]*meter) map[apiserver.Labels][]*meter {
	all := make(map[apiserver.Labels][]*meter, len(meters))
	for l, m := range meters {
		l.DryRun = false
		all[l] = append(all[l], m)
	}
	return all
}

// collectDeprecated tells which deprecated APIs were requested, whatever for.
func collectDeprecated(out chan<- prometheus.Metric, routes map[apiserver.Labels][]*meter) {
	seen := map[apiserver.Labels]bool{}
	for l := range routes {
		of := apiserver.Labels{Group: l.Group, Version: l.Version, Resource: l.Resource, Subresource: l.Subresource}
		if !seen[of] && deprecatedResources[resourceLabels{l.Group, l.Version, l.Resource}] {
			seen[of] = true
			out <- prometheus.MustNewConstMetric(deprecated, prometheus.GaugeValue, 1, l.Group, l.Version, l.Resource, l.Subresource, "")
		}
	}
}

// collectAuthentications tells how many requests have ended whose user was known, and how many others.
func collectAuthentications(out chan<- prometheus.Metric, meters map[apiserver.Labels]*meter) {
	var success, failure uint64
	for _, m := range meters {
		unknown := m.codes[codeIndex[http.StatusUnauthorized]].Load()
		failure += unknown
		for i := range m.codes {
			success += m.codes[i].Load()
		}
		success -= unknown
	}
	out <- prometheus.MustNewConstMetric(authentications, prometheus.CounterValue, float64(success), "success")
	out <- prometheus.MustNewConstMetric(authentications, prometheus.CounterValue, float64(failure), "failure")
}

func collectRoute(out chan<- prometheus.Metric, l apiserver.Labels, all []*meter) {
	route := []string{l.Verb, l.Group, l.Version, l.Resource, l.Subresource, l.Scope, "apiserver"}
	for _, code := range terminating {
		var n uint64
		for _, m := range all {
			n += m.codes[codeIndex[code]].Load()
		}
		if n > 0 && !(code == http.StatusTooManyRequests && l.Subresource == "eviction") {
			out <- prometheus.MustNewConstMetric(terminations, prometheus.CounterValue, float64(n), append(route, strconv.Itoa(code))...)
		}
	}
	if l.LongRunning {
		return
	}
	took := newHistogram(durationScale)
	for _, m := range all {
		took.add(m.unwaited) // first: a move comes after the observation that it moves
		took.add(m.durations)
	}
	if !took.empty() {
		out <- took.from(sliFirst).metric(sliDuration, sliScale, route...)
	}
}

// from returns the histogram with the first buckets in one.
func (h *histogram) from(first int) *histogram {
	out := &histogram{counts: h.counts[first:]}
	for i := range first {
		out.counts[0].Add(h.counts[i].Load())
	}
	out.sum.Store(h.sum.Load())
	return out
}
