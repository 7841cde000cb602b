// Command restart measures the restart of a Millrace that was killed: it fills an API server with pods, kills it with
// kill -9, and starts it again with the same directory. It prints the time until all is ready and the memory, the
// maximum until then and the value at rest: with and without pages of files, which the system may reclaim.
//
//	go run ./bench/restart --millrace ./millrace              # 100,000 pods of 6 KB, all of one template
//	go run ./bench/restart --millrace ./millrace --unlike     # pods with almost nothing in common
//	go run ./bench/restart --millrace ./millrace --cold       # as after a start of the machine: nothing of the database is in memory
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/millrace/millrace/bench/internal/h2"
	"github.com/millrace/millrace/bench/internal/objects"
	"github.com/millrace/millrace/bench/internal/target"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var o options
	flag.StringVar(&o.millrace, "millrace", "./millrace", "the millrace program")
	flag.IntVar(&o.pods, "pods", 100_000, "how many pods there are")
	flag.BoolVar(&o.unlike, "unlike", false, "let the pods have little in common")
	flag.BoolVar(&o.cold, "cold", false, "let the system read all from the disk again, as after a start of the machine")
	flag.IntVar(&o.times, "times", 3, "how often it is killed")
	flag.DurationVar(&o.rest, "rest", time.Minute, "how long nothing happens before the memory at rest is read")
	flag.StringVar(&o.dir, "dir", "", "directory in which the server keeps its data for the time of the run (default: the system's)")
	flag.Parse()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "restart:", err)
		os.Exit(1)
	}
}

type options struct {
	millrace, dir string
	pods, times   int
	unlike, cold  bool
	rest          time.Duration
}

func run(ctx context.Context, o options) error {
	s, err := target.Millrace(o.millrace).Start(ctx, o.dir, 0)
	if err != nil {
		return err
	}
	defer s.Stop()
	if err := fill(ctx, s, o); err != nil {
		return err
	}
	for range o.times {
		if err := s.Restart(ctx, o.cold); err != nil {
			return err
		}
		took := s.Took
		if err := wait(ctx, o.rest); err != nil {
			return err
		}
		m, err := s.Memory()
		if err != nil {
			return err
		}
		fmt.Printf("ready after %.2f s, peak %d MiB (%d with the pages of files), at rest %d MiB (%d)\n",
			took.Seconds(), s.MostAnon>>20, m.Peak>>20, m.Anon>>20, m.RSS()>>20)
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// creators is how many pods are created concurrently.
const creators = 32

// fill creates the pods.
func fill(ctx context.Context, s *target.Server, o options) error {
	conn, err := s.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var working sync.WaitGroup
	alike, asJSON := objects.Pod(), []hpack.HeaderField{{Name: "content-type", Value: "application/json"}}
	for range creators {
		working.Go(func() {
			for n := int(next.Add(1)); n <= o.pods && ctx.Err() == nil; n = int(next.Add(1)) {
				template := alike
				if o.unlike {
					template = objects.UnlikePod(n)
				}
				body := template.With(objects.Fill{Name: objects.Name('p', n), Seq: n, Shard: n % 1000})
				if _, err := conn.Expect(ctx, h2.Request{Method: "POST", Path: "/api/v1/namespaces/default/pods", Header: asJSON, Body: body}); err != nil {
					cancel(err)
				}
			}
		})
	}
	working.Wait()
	return context.Cause(ctx)
}
