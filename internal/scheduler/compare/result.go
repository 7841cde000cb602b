package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// head names the columns of the table.
const head = "nodes\tkind\tscheduler\tpods/s\tCPU µs/pod\tand events\tevents\tpeak MiB\tpods a node\tpods a zone"

// result is the measurement of one contender and one set of pods. The time before the first binding, or the first pod
// that is deleted for others, is not included.
type result struct {
	pods    int
	took    time.Duration // until the last pod had its node
	binding time.Duration // CPU time until the last pod had its node
	all     time.Duration // CPU time until the events were written too
	events  int
	peak    float64 // MiB
	byNode  []int   // pods
	byZone  []int
}

func (r result) rate() float64 { return float64(r.pods-1) / r.took.Seconds() }

func (r result) each(cpu time.Duration) float64 { return float64(cpu.Microseconds()) / float64(r.pods) }

// String is a part of a line of the table.
func (r result) String() string {
	return fmt.Sprintf("%.0f\t%.0f\t%.0f\t%d\t%.0f\t%s\t%s", r.rate(), r.each(r.binding), r.each(r.all), r.events, r.peak,
		span(r.byNode), span(r.byZone))
}

func span(counts []int) string {
	return fmt.Sprintf("%d to %d", slices.Min(counts), slices.Max(counts))
}

// score holds the results of each contender.
type score map[string][]result

// median returns the median of f over a contender's results.
func (s score) median(name string, f func(result) float64) float64 {
	var all []float64
	for _, r := range s[name] {
		all = append(all, f(r))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// String returns a comparison of the medians.
func (s score) String() string {
	var b strings.Builder
	against := func(label, one, other string) {
		if len(s[one]) == 0 || len(s[other]) == 0 {
			return
		}
		cpu := func(r result) float64 { return r.each(r.all) }
		fmt.Fprintf(&b, "\t%s: %.2f times the pods/s, %.2f times the CPU a pod\n", label,
			s.median(one, result.rate)/s.median(other, result.rate), s.median(one, cpu)/s.median(other, cpu))
	}
	against("millrace beside kube-scheduler", ours, theirs)
	against("bare binder beside kube-scheduler: no scheduler can do more here", bareBinder, theirs)
	against("millrace beside the bare binder", ours, bareBinder)
	return b.String()
}
