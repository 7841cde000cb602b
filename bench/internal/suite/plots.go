package suite

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace/millrace/bench/internal/plot"
	"github.com/millrace/millrace/bench/internal/stats"
)

// Figure is one chart.
type Figure struct {
	// File is its file name without extension, Title what it shows.
	File, Title string
	SVG         []byte
}

// Plots draws all charts, in reading order. Charts without measurements are left out.
func Plots(rows []Row) []Figure {
	var out []Figure
	add := func(file, title string, svg []byte) {
		if svg != nil {
			out = append(out, Figure{file, title, svg})
		}
	}
	writes := choose(rows, "create/", "patch/", "update", "lease", "apply", "delete", "get/")
	cpu := func(r Row) stats.Summary { return r.CPU }
	rate := func(r Row) stats.Summary { return r.Rate }
	p50 := func(r Row) stats.Summary { return scaled(r.P50, 1e-3) }
	add("rate-requests", "Requests a second, 64 at a time", bars("Requests a second, 64 at a time (more is better)", "/s", writes, rate))
	add("cpu-requests", "Server CPU for each request", bars("Server CPU for each request (less is better)", "µs", writes, cpu))
	for _, size := range []string{"200B", "1KB", "6KB"} {
		title := "Server CPU for each delivery of " + size
		add("fanout-"+strings.ToLower(size), title, fanOutLines(rows, size, title+" (less is better)"))
	}
	for _, per := range []string{"20", "100", "500"} {
		title := "From a write to its watchers, 99th percentile, " + per + " writes a second"
		add("latency-"+per, title, latencyLines(rows, "/"+per+"ps", title))
	}
	lists := suffixed(choose(rows, "list/"), "/10000")
	add("lists", "Time of a list of 10,000 pods of 6 KB", bars("Time of a list of 10,000 pods of 6 KB (less is better)", "ms", lists, p50))
	add("lists-cpu", "Server CPU of a list of 10,000 pods", bars("Server CPU of a list of 10,000 pods (less is better)", "ms", lists, func(r Row) stats.Summary { return scaled(r.CPU, 1e-3) }))
	add("lists-size", "Time of a list by number of pods", sizeLines(rows))
	add("memory", "Resident memory of all server processes at rest", bars("Resident memory of all server processes at rest", "MiB", choose(rows, "memory/"), own("resident, MiB")))
	add("idle", "Memory for each idle watch", bars("Memory for each idle watch, after some events", "KiB", choose(rows, "idle/"), own("resident after churn, KiB")))
	add("start", "From the start of the process to ready", bars("From the start of the process to ready", "ms", choose(rows, "start"), own("ready, ms")))
	return out
}

func scaled(s stats.Summary, by float64) stats.Summary {
	return stats.Summary{Median: s.Median * by, Min: s.Min * by, Max: s.Max * by}
}

func own(name string) func(Row) stats.Summary {
	return func(r Row) stats.Summary { return r.Own[name] }
}

func choose(rows []Row, prefixes ...string) []Row {
	var out []Row
	for _, r := range rows {
		if r.Error == "" && slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(r.Case, p) }) {
			out = append(out, r)
		}
	}
	return out
}

func suffixed(rows []Row, suffix string) []Row {
	return slices.DeleteFunc(rows, func(r Row) bool { return !strings.HasSuffix(r.Case, suffix) })
}

// bars has a group for each case for which a target has a value.
func bars(title, unit string, rows []Row, value func(Row) stats.Summary) []byte {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return value(r).Median <= 0 })
	if len(rows) == 0 {
		return nil
	}
	c := plot.Bars{Title: title, Unit: unit, Series: targets(rows)}
	for i, r := range rows {
		if slices.IndexFunc(rows, func(o Row) bool { return o.Case == r.Case }) != i {
			continue
		}
		g := plot.Group{Label: r.Case}
		for _, name := range c.Series {
			j := slices.IndexFunc(rows, func(o Row) bool { return o.Case == r.Case && o.Target == name })
			s := stats.Summary{Median: math.NaN()}
			if j >= 0 {
				s = value(rows[j])
			}
			g.Value, g.Low, g.High = append(g.Value, s.Median), append(g.Low, s.Min), append(g.High, s.Max)
		}
		c.Groups = append(c.Groups, g)
	}
	return c.SVG()
}

// targetOrder keeps a target's colour the same in all charts.
var targetOrder = []string{"millrace", "kubernetes", "limit"}

func targets(rows []Row) []string {
	return slices.DeleteFunc(slices.Clone(targetOrder), func(name string) bool {
		return !slices.ContainsFunc(rows, func(r Row) bool { return r.Target == name })
	})
}

// lines collects points into lines by name: the target's, sometimes followed by a comma and another property.
type lines struct{ plot.Lines }

func (l *lines) add(name string, x, y float64) {
	if y <= 0 {
		return
	}
	i := slices.IndexFunc(l.Lines.Lines, func(l plot.Line) bool { return l.Name == name })
	if i < 0 {
		i = len(l.Lines.Lines)
		target, with, _ := strings.Cut(name, ", ")
		l.Lines.Lines = append(l.Lines.Lines, plot.Line{Name: name, Colour: slices.Index(targetOrder, target), Dashed: with == "gzip"})
	}
	line := &l.Lines.Lines[i]
	line.X, line.Y = append(line.X, x), append(line.Y, y)
}

func (l *lines) svg() []byte {
	if len(l.Lines.Lines) == 0 {
		return nil
	}
	return l.SVG()
}

// fanOutLines shows the cost of a delivery against the number of watchers.
func fanOutLines(rows []Row, size, title string) []byte {
	c := lines{plot.Lines{Title: title, XLabel: "watchers", YLabel: "µs of server CPU for each delivery"}}
	for _, r := range choose(rows, "fanout/") {
		part := strings.Split(r.Case, "/")
		watchers, err := strconv.Atoi(part[1])
		if err != nil || part[2] != size || r.Target == "kubernetes" && part[3] == "gzip" { // kube-apiserver never compresses a watch
			continue
		}
		c.add(r.Target+", "+part[3], float64(watchers), r.CPU.Median)
	}
	return c.svg()
}

func latencyLines(rows []Row, suffix, title string) []byte {
	c := lines{plot.Lines{Title: title, XLabel: "watchers", YLabel: "ms"}}
	for _, r := range suffixed(choose(rows, "latency/"), suffix) {
		if watchers, err := strconv.Atoi(strings.Split(r.Case, "/")[1]); err == nil {
			c.add(r.Target, float64(watchers), r.P99.Median/1000)
		}
	}
	return c.svg()
}

func sizeLines(rows []Row) []byte {
	c := lines{plot.Lines{Title: "Time of a list by number of pods (less is better)", XLabel: "pods of 6 KB", YLabel: "ms"}}
	for _, r := range choose(rows, "list/json/", "list/gzip/") {
		part := strings.Split(r.Case, "/")
		if n, err := strconv.Atoi(part[2]); err == nil {
			c.add(r.Target+", "+part[1], float64(n), r.P50.Median/1000)
		}
	}
	return c.svg()
}
