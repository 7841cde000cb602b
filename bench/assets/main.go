// Command assets measures directories for KUBEBUILDER_ASSETS: the time from the start of etcd and kube-apiserver until
// both are ready, and from the signal to their end. The directories are measured in turns.
//
//	go run ./cmd/millrace assets /tmp/assets
//	go run ./bench/assets /tmp/assets $KUBEBUILDER_ASSETS
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/millrace/millrace/bench/internal/stats"
	"github.com/millrace/millrace/bench/internal/target"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	turns := flag.Int("turns", 5, "how often each directory is started")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "assets: name at least one directory with kube-apiserver and etcd")
		os.Exit(2)
	}
	if err := run(ctx, flag.Args(), *turns); err != nil {
		fmt.Fprintln(os.Stderr, "assets:", err)
		os.Exit(1)
	}
}

// times are the measurements of one directory, in milliseconds.
type times struct{ start, end []float64 }

func run(ctx context.Context, directories []string, turns int) error {
	all := make([]times, len(directories))
	for range turns {
		for i, directory := range directories {
			if err := all[i].turn(ctx, directory); err != nil {
				return fmt.Errorf("%s: %w", directory, err)
			}
		}
	}
	for i, directory := range directories {
		start, end := stats.Summarize(all[i].start), stats.Summarize(all[i].end)
		fmt.Printf("%s: ready after %.0f ms (%.0f to %.0f), gone after %.0f ms (%.0f to %.0f)\n", directory, start.Median, start.Min, start.Max, end.Median, end.Min, end.Max)
	}
	return nil
}

func (t *times) turn(ctx context.Context, directory string) error {
	s, err := target.Kubernetes(filepath.Join(directory, "kube-apiserver"), filepath.Join(directory, "etcd")).Start(ctx, "", 0)
	if err != nil {
		return err
	}
	began := time.Now()
	s.Stop()
	t.start, t.end = append(t.start, milliseconds(s.Took)), append(t.end, milliseconds(time.Since(began)))
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
