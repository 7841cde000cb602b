package status

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// report is what is known about a cluster.
type report struct {
	url, version      string
	now               time.Time
	ready             bool
	nodes, readyNodes int
	measured          measured
	wrong             []string
	// unknown says what could not be read, and why.
	unknown []string
}

// print writes the report, one fact a line.
func (r *report) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	state := "ready"
	if !r.ready {
		state = "not ready"
	}
	fmt.Fprintf(w, "API\t%s, %s\n", r.url, state)
	fmt.Fprintf(w, "version\t%s\n", r.version)
	fmt.Fprintf(w, "nodes\t%d of %d ready\n", r.readyNodes, r.nodes)
	if m := r.measured; m.known {
		if !m.began.IsZero() {
			fmt.Fprintf(w, "running\tsince %s (%s)\n", m.began.Format(time.DateTime), duration.HumanDuration(r.now.Sub(m.began)))
		}
		if m.resident > 0 { // not every system tells
			fmt.Fprintf(w, "memory\t%.0f MiB, %s\n", m.resident/(1<<20), count(m.goroutines, "goroutine"))
		}
		fmt.Fprintf(w, "objects\t%.0f%s\n", m.objects, most(m.kinds))
		fmt.Fprintf(w, "watchers\t%.0f\n", m.watches)
	}
	lines(w, "unknown", r.unknown)
	if len(r.wrong) == 0 {
		r.wrong = []string{"nothing that the API tells"}
	}
	lines(w, "wrong", r.wrong)
	return w.Flush()
}

// lines writes texts below each other.
func lines(w io.Writer, title string, texts []string) {
	slices.Sort(texts)
	for _, text := range texts {
		fmt.Fprintf(w, "%s\t%s\n", title, strings.Join(strings.Fields(text), " "))
		title = ""
	}
}

// most names the kinds of which there are most.
func most(kinds []kind) string {
	var named []string
	for _, k := range kinds[:min(3, len(kinds))] {
		named = append(named, fmt.Sprintf("%.0f %s", k.objects, k.name))
	}
	if len(named) == 0 {
		return ""
	}
	more := ""
	if len(kinds) > len(named) {
		more = " …"
	}
	return fmt.Sprintf(" of %s: %s%s", count(float64(len(kinds)), "kind"), strings.Join(named, ", "), more)
}

// some joins the first of many names.
func some(names []string) string {
	const few = 3
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:few], ", ") + " …"
}

// count returns a number and what is counted, in the right number.
func count(n float64, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.FormatFloat(n, 'f', 0, 64) + " " + what
}
