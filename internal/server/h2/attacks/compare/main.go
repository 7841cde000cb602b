// Command compare carries out the attacks of package attacks on package h2 and on net/http, and prints their cost side
// by side.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"text/tabwriter"

	"github.com/millrace/millrace/internal/server/h2/attacks"
)

func main() {
	attacks.ServeIfAsked()
	run := flag.String("run", "", "carry out only attacks whose names match this regular expression")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := compare(ctx, *run); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func compare(ctx context.Context, run string) error {
	chosen, err := regexp.Compile(run)
	if err != nil {
		return err
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "held MiB\tnet/http\tpeak MiB\tnet/http\tCPU ms\tnet/http\thandlers\tnet/http\tended\tnet/http\t attack")
	for _, a := range attacks.All() {
		if !chosen.MatchString(a.Name) {
			continue
		}
		ours, err := attacks.Measure(ctx, attacks.Ours, a)
		if err != nil {
			return fmt.Errorf("%s: %w", a.Name, err)
		}
		theirs, err := attacks.Measure(ctx, attacks.NetHTTP, a)
		if err != nil {
			return fmt.Errorf("%s: %w", a.Name, err)
		}
		fmt.Fprintf(out, "%.1f\t%.1f\t%.1f\t%.1f\t%d\t%d\t%d\t%d\t%d\t%d\t %s %s\n", mib(ours.Held), mib(theirs.Held), mib(ours.Peak), mib(theirs.Peak),
			ours.CPU.Milliseconds(), theirs.CPU.Milliseconds(), ours.AtOnce, theirs.AtOnce, ours.Ended, theirs.Ended, a.Name, a.CVE)
		out.Flush()
	}
	return nil
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
