package looptest

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Measured is what metrics say that are not zero, by their name and the values of their labels: of histograms the sum,
// and with " n" the number.
func Measured(t testing.TB, from prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, family := range families {
		for _, m := range family.Metric {
			name := family.GetName()
			for _, l := range m.Label {
				name += " " + l.GetValue()
			}
			if value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetHistogram().GetSampleSum(); value != 0 {
				all[name] = value
			}
			if n := m.GetHistogram().GetSampleCount(); n != 0 {
				all[name+" n"] = float64(n)
			}
		}
	}
	return all
}
