package suite

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace/millrace/bench/internal/plot"
	"github.com/millrace/millrace/bench/internal/stats"
)

// Plots draws charts, by file name. Those that nothing was measured for are left out.
func Plots(rows []Row) map[string][]byte {
	out := map[string][]byte{}
	groups := []struct {
		name, title string
		prefixes    []string
	}{
		{"requests", "one object", []string{"create/", "get/", "patch/", "update", "lease", "apply", "delete"}},
		{"lists", "lists", []string{"list/", "watch-start/"}},
		{"watches", "deliveries to watchers", []string{"fanout/", "nodes/", "slow/"}},
	}
	for _, g := range groups {
		those := choose(rows, g.prefixes...)
		if len(those) == 0 {
			continue
		}
		out["cpu-"+g.name+".svg"] = bars("Server CPU for each operation: "+g.title, "µs", those, func(r Row) stats.Summary { return r.CPU })
		out["rate-"+g.name+".svg"] = bars("Operations a second: "+g.title, "/s", those, func(r Row) stats.Summary { return r.Rate })
	}
	if those := choose(rows, "latency/"); len(those) > 0 {
		out["latency.svg"] = bars("From a write to its watchers, 99th percentile", "µs", those, func(r Row) stats.Summary { return r.P99 })
	}
	if svg := fanOutLines(rows); svg != nil {
		out["fanout.svg"] = svg
	}
	return out
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

func bars(title, unit string, rows []Row, value func(Row) stats.Summary) []byte {
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

func targets(rows []Row) []string {
	var out []string
	for _, r := range rows {
		if !slices.Contains(out, r.Target) {
			out = append(out, r.Target)
		}
	}
	return out
}

// fanOutLines shows what a delivery of 6 KB costs with the number of watchers.
func fanOutLines(rows []Row) []byte {
	c := plot.Lines{Title: "Server CPU for each delivery of 6 KB", XLabel: "watchers", YLabel: "µs"}
	for _, r := range choose(rows, "fanout/") {
		part := strings.Split(r.Case, "/")
		watchers, err := strconv.Atoi(part[1])
		if err != nil || part[2] != "6KB" {
			continue
		}
		name := r.Target + ", " + part[3]
		i := slices.IndexFunc(c.Lines, func(l plot.Line) bool { return l.Name == name })
		if i < 0 {
			i = len(c.Lines)
			c.Lines = append(c.Lines, plot.Line{Name: name})
		}
		c.Lines[i].X, c.Lines[i].Y = append(c.Lines[i].X, float64(watchers)), append(c.Lines[i].Y, r.CPU.Median)
	}
	if len(c.Lines) == 0 {
		return nil
	}
	return c.SVG()
}
