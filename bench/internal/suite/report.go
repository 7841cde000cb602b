package suite

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/millrace/millrace/bench/internal/plot"
	"github.com/millrace/millrace/bench/internal/stats"
)

// Row summarizes the rounds of one target in one case.
type Row struct {
	Case   string `json:"case"`
	Op     string `json:"op"`
	Target string `json:"target"`
	Error  string `json:"error,omitempty"`
	Rounds int    `json:"rounds"`
	// Rate is operations per second, CPU the server's microseconds for each, P50 and P99 microseconds.
	Rate stats.Summary `json:"rate"`
	CPU  stats.Summary `json:"cpuMicroseconds"`
	P50  stats.Summary `json:"p50Microseconds"`
	P99  stats.Summary `json:"p99Microseconds"`
	// Wire is bytes sent for each operation, RSS resident bytes at the end.
	Wire stats.Summary            `json:"wireBytes"`
	RSS  stats.Summary            `json:"rssBytes"`
	Lost int                      `json:"lost"`
	Own  map[string]stats.Summary `json:"own,omitempty"`
	// Ratios to the other targets, by name: above one is more.
	RateTo map[string]float64 `json:"rateTo,omitempty"`
	CPUTo  map[string]float64 `json:"cpuTo,omitempty"`
}

// Report is the report of a whole run.
type Report struct {
	Machine Machine   `json:"machine"`
	Scale   Scale     `json:"scale"`
	Rows    []Row     `json:"rows"`
	Raw     []Outcome `json:"rounds,omitempty"`
}

// Machine describes the machine of a run.
type Machine struct {
	OS, Arch, Go string
	Processors   int
	When         time.Time
}

// Rows summarizes outcomes.
func Rows(outcomes []Outcome) []Row {
	var rows []Row
	for _, o := range outcomes {
		rows = append(rows, o.row())
	}
	for i := range rows {
		r := &rows[i]
		r.RateTo, r.CPUTo = map[string]float64{}, map[string]float64{}
		for _, other := range rows {
			if other.Case != r.Case || other.Target == r.Target {
				continue
			}
			if other.Rate.Median > 0 {
				r.RateTo[other.Target] = r.Rate.Median / other.Rate.Median
			}
			if other.CPU.Median > 0 {
				r.CPUTo[other.Target] = r.CPU.Median / other.CPU.Median
			}
		}
	}
	return rows
}

func (o Outcome) row() Row {
	r := Row{Case: o.Case, Op: o.Op, Target: o.Target, Error: o.Error, Rounds: len(o.Samples), Own: map[string]stats.Summary{}}
	sum := func(f func(Sample) float64) stats.Summary {
		var values []float64
		for _, s := range o.Samples {
			values = append(values, f(s))
		}
		return stats.Summarize(values)
	}
	micro := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
	r.Rate = sum(Sample.Rate)
	r.CPU = sum(func(s Sample) float64 { return micro(s.CPU) })
	r.P50 = sum(func(s Sample) float64 { return micro(s.P50) })
	r.P99 = sum(func(s Sample) float64 { return micro(s.P99) })
	r.Wire = sum(func(s Sample) float64 { return s.Wire })
	r.RSS = sum(func(s Sample) float64 { return float64(s.Memory.RSS()) })
	for _, s := range o.Samples {
		r.Lost += s.Lost
		for name := range s.Own {
			r.Own[name] = sum(func(s Sample) float64 { return s.Own[name] })
		}
	}
	return r
}

// WriteTable writes rows as a table.
func WriteTable(w io.Writer, rows []Row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "case\ttarget\trate/s\t±\tp50\tp99\tCPU/op\t±\tRSS\tsent/op\tlost\trate to peer\tCPU to peer\tCPU to limit\t")
	for _, r := range rows {
		if r.Error != "" {
			fmt.Fprintf(t, "%s\t%s\tfailed\t\t\t\t\t\t\t\t\t\t\t\t\n", r.Case, r.Target)
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.0f MiB\t%s\t%d\t%s\t%s\t%s\t\n", r.Case, r.Target,
			plot.Short(r.Rate.Median), percent(r.Rate), micros(r.P50.Median), micros(r.P99.Median), micros(r.CPU.Median), percent(r.CPU),
			r.RSS.Median/(1<<20), size(r.Wire.Median), r.Lost, ratio(r.RateTo["kubernetes"]), ratio(r.CPUTo["kubernetes"]), ratio(r.CPUTo["limit"]))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, r := range rows {
		if line := r.ownLine(); line != "" {
			fmt.Fprintf(w, "%s, %s: %s\n", r.Case, r.Target, line)
		}
		if r.Error != "" {
			fmt.Fprintf(w, "%s, %s failed: %s\n", r.Case, r.Target, r.Error)
		}
	}
	return nil
}

func (r Row) ownLine() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(r.Own)) {
		what, unit, _ := strings.Cut(name, ", ")
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s %s %s", what, plot.Short(r.Own[name].Median), unit)))
	}
	return strings.Join(parts, ", ")
}

func percent(s stats.Summary) string { return fmt.Sprintf("%.0f%%", s.Spread()*100) }

func micros(us float64) string {
	switch {
	case us == 0:
		return "-"
	case us >= 1e6:
		return plot.Short(us/1e6) + " s"
	case us >= 1e4:
		return plot.Short(us/1e3) + " ms"
	}
	return plot.Short(us) + " µs"
}

func size(bytes float64) string {
	switch {
	case bytes >= 1<<20:
		return plot.Short(bytes/(1<<20)) + " MiB"
	case bytes >= 10<<10:
		return plot.Short(bytes/(1<<10)) + " KiB"
	}
	return plot.Short(bytes) + " B"
}

func ratio(v float64) string {
	if v == 0 {
		return "-"
	}
	return plot.Short(v) + "×"
}

// WriteJSON writes everything as JSON.
func WriteJSON(w io.Writer, r Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
