package status

import (
	"bytes"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// measured is what the server's metrics say.
type measured struct {
	known      bool
	began      time.Time
	resident   float64
	goroutines float64
	objects    float64
	kinds      []kind // with objects, the most first
	watches    float64
	unreadable float64
}

// kind is a kind of objects, and how many there are.
type kind struct {
	name    string
	objects float64
}

// measure reads metrics in Prometheus' text.
func measure(text []byte) (m measured, err error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return m, err
	}
	m.known = true
	if seconds := total(families["process_start_time_seconds"], nil); seconds > 0 {
		m.began = time.UnixMilli(int64(seconds * 1000))
	}
	m.resident = total(families["process_resident_memory_bytes"], nil)
	m.goroutines = total(families["go_goroutines"], nil)
	m.unreadable = total(families["millrace_watch_cache_unreadable_objects"], nil)
	m.watches = total(families["apiserver_longrunning_requests"], map[string]string{"verb": "WATCH"})
	for _, one := range families["apiserver_resource_objects"].GetMetric() {
		n := value(one)
		if n <= 0 {
			continue
		}
		name := label(one, "resource")
		if group := label(one, "group"); group != "" {
			name += "." + group
		}
		m.objects += n
		m.kinds = append(m.kinds, kind{name, n})
	}
	slices.SortStableFunc(m.kinds, func(a, b kind) int { return int(b.objects - a.objects) })
	return m, nil
}

// total returns the sum of a metric, of those that have certain labels.
func total(family *dto.MetricFamily, labels map[string]string) (sum float64) {
	for _, m := range family.GetMetric() {
		matches := true
		for name, value := range labels {
			matches = matches && label(m, name) == value
		}
		if matches {
			sum += value(m)
		}
	}
	return sum
}

func value(m *dto.Metric) float64 {
	return m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetUntyped().GetValue()
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}
