package stats

import (
	"slices"
	"testing"
	"time"
)

func TestPercentilesAreValuesThatOccurred(t *testing.T) {
	var values []time.Duration
	for i := range 100 {
		values = append(values, time.Duration(100-i))
	}
	before := slices.Clone(values)
	got := Percentiles(values, 0, 1, 50, 99, 100)
	if want := []time.Duration{1, 1, 50, 99, 100}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if !slices.Equal(values, before) {
		t.Error("the values were put into another order")
	}
	if got := Percentiles([]time.Duration{7}, 99)[0]; got != 7 {
		t.Errorf("of one value: %v", got)
	}
	if got := Percentiles(nil, 50)[0]; got != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

func TestSummaryTellsMedianAndSpread(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   Summary
		spread float64
	}{
		{[]float64{3, 1, 2}, Summary{2, 1, 3}, 0.5},
		{[]float64{10, 20}, Summary{15, 10, 20}, 1.0 / 3},
		{[]float64{4}, Summary{4, 4, 4}, 0},
		{nil, Summary{}, 0},
	} {
		got := Summarize(c.values)
		if got != c.want || got.Spread() != c.spread {
			t.Errorf("%v: got %+v, spread %v", c.values, got, got.Spread())
		}
	}
}
