package prommetrics_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/loop/prommetrics"
)

var _ loop.ElectionMetrics = (*prommetrics.Election)(nil)

// answers is a transport that answers with a status; 0 is an error.
type answers struct{ status int }

func (a *answers) RoundTrip(*http.Request) (*http.Response, error) {
	if a.status == 0 {
		return nil, errors.New("nobody answers")
	}
	return &http.Response{StatusCode: a.status, Body: http.NoBody}, nil
}

func TestRequestsAreCountedUnderKubernetesNames(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := prommetrics.NewRequests(registry)
	if err != nil {
		t.Fatal(err)
	}
	server := &answers{}
	config := &rest.Config{Host: "https://server:6443", Transport: server}
	waited := m.Measure(config)
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, server.status = range []int{200, 200, 409, 0} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "https://server:6443/api", strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := transport.RoundTrip(r); err == nil {
			answer.Body.Close()
		}
	}
	waited(http.MethodPut, 0)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var requests []string
	counts := map[string]uint64{}
	for _, f := range families {
		if f.GetName() == "rest_client_requests_total" {
			for _, one := range f.Metric {
				text := ""
				for _, l := range one.Label {
					text += l.GetName() + "=" + l.GetValue() + " "
				}
				requests = append(requests, fmt.Sprint(text, one.GetCounter().GetValue()))
			}
		}
		if h := f.Metric[0].GetHistogram(); h != nil {
			counts[f.GetName()] = h.GetSampleCount()
		}
	}
	want := []string{
		"code=200 host=server:6443 method=PUT 2", "code=409 host=server:6443 method=PUT 1", "code=<error> host=server:6443 method=PUT 1",
	}
	if slices.Sort(requests); !slices.Equal(requests, want) {
		t.Errorf("requests are counted as %q", requests)
	}
	for name, n := range map[string]uint64{"rest_client_request_duration_seconds": 4, "rest_client_request_size_bytes": 4, "rest_client_response_size_bytes": 3, "rest_client_rate_limiter_duration_seconds": 1} {
		if counts[name] != n {
			t.Errorf("%s counts %d, want %d", name, counts[name], n)
		}
	}
}

func TestAnElectionIsToldUnderKubernetesNames(t *testing.T) {
	registry := prometheus.NewRegistry()
	e, err := prommetrics.NewElection(registry, "kube-scheduler")
	if err != nil {
		t.Fatal(err)
	}
	values := func() []float64 {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var all []float64
		for _, f := range families {
			all = append(all, f.Metric[0].GetGauge().GetValue()+f.Metric[0].GetCounter().GetValue())
		}
		return all
	}
	e.Leads(true)
	e.Read()
	e.Read()
	if got := values(); !slices.Equal(got, []float64{1, 2}) {
		t.Errorf("a leader that has read its lease twice has %v", got)
	}
	e.Leads(false)
	if got := values(); got[0] != 0 {
		t.Errorf("after the election was lost the status is %v", got[0])
	}
}

func BenchmarkRequests(b *testing.B) {
	m, err := prommetrics.NewRequests(prometheus.NewRegistry())
	if err != nil {
		b.Fatal(err)
	}
	config := &rest.Config{Host: "https://server:6443", Transport: &answers{200}}
	m.Measure(config)
	transport, err := rest.TransportFor(config)
	if err != nil {
		b.Fatal(err)
	}
	r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "https://server:6443/api", nil)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := transport.RoundTrip(r); err != nil {
			b.Fatal(err)
		}
	}
}
