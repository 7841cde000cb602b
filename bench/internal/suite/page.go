package suite

import (
	"fmt"
	"io"

	"github.com/millrace/millrace/bench/internal/plot"
)

// WritePage writes a Markdown page: how the figures were measured, the charts in a directory, and all figures.
func WritePage(w io.Writer, r Report, figures []Figure, directory, command string) error {
	m := r.Machine
	fmt.Fprintf(w, pageHead, command, m.When.UTC().Format("2006-01-02"), m.OS, m.Arch, m.Processors, m.Go)
	for _, f := range figures {
		fmt.Fprintf(w, "![%s](%s/%s.svg)\n\n", f.Title, directory, f.File)
	}
	fmt.Fprint(w, "## All figures\n\n± is how far the rounds are from their median at most.\n\n",
		"| case | target | a second | ± | p50 | p99 | server CPU each | ± | resident | sent each | lost | CPU, of the peer's | CPU, of the limit's |\n",
		"|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, row := range r.Rows {
		if row.Error != "" {
			fmt.Fprintf(w, "| %s | %s | failed: %.120s |\n", row.Case, row.Target, row.Error)
			continue
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %s | %.0f MiB | %s | %d | %s | %s |\n", row.Case, row.Target,
			plot.Short(row.Rate.Median), percent(row.Rate), micros(row.P50.Median), micros(row.P99.Median), micros(row.CPU.Median), percent(row.CPU),
			row.RSS.Median/(1<<20), size(row.Wire.Median), row.Lost, ratio(row.CPUTo["kubernetes"]), ratio(row.CPUTo["limit"]))
	}
	fmt.Fprint(w, "\n## What only some cases have\n\n| case | target | |\n|---|---|---|\n")
	for _, row := range r.Rows {
		if line := row.ownLine(); line != "" {
			fmt.Fprintf(w, "| %s | %s | %s |\n", row.Case, row.Target, line)
		}
	}
	_, err := fmt.Fprintln(w)
	return err
}

const pageHead = `# Figures

Made by one command, which measures Millrace, a kube-apiserver with etcd, and the bare limit of this machine:

    %s

On %s, %s/%s with %d processors, %s. Repeat it on yours: the ratios hold elsewhere, the times do not.

- All servers run as processes of their own on the same machine as the client, and take turns, round by round. What is
  measured is theirs: CPU time and resident memory of all their processes, the peer's etcd included.
- All have TLS, a client certificate of an administrator who belongs to ` + "`system:masters`" + `, RBAC (the limit checks the certificate
  alone), and a log that is synced to the same disk before a write is acknowledged. They get the same requests over the same
  connections.
- *limit* is what a Go program can do at all: the log that is called in process, and an HTTP/2 server that sends bytes that
  are ready. It decides nothing and encodes nothing.
- Every watcher checks that it has seen each event once and in order; what it has not is *lost*. The objects of a fan-out are
  as alike as pods of one deployment, but where a case says "unlike".
- Memory is looked at when the servers have been left alone for a while, *memory/0* after the requests with which kubectl begins.
- A case that a server does not finish within three minutes is a failure of that server.

`
