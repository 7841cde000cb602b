// Command bench measures Millrace, a kube-apiserver with etcd, and the bare limit of what a Go program can do, in one
// run on one machine.
//
//	go run ./bench --quick
//	go run ./bench --run 'fanout/1000' --rounds 5 --json out.json
//	go run ./bench --docs docs        # everything, and the page docs/figures.md with its charts: about half an hour
//
// kube-apiserver and etcd are found in KUBEBUILDER_ASSETS, or named with --kube-apiserver and --etcd. Without them
// Millrace is compared with the limit alone. Servers are separate processes on the loopback interface. Their data is in
// a temporary directory, which is removed at the end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/millrace/millrace/bench/internal/limit"
	"github.com/millrace/millrace/bench/internal/suite"
	"github.com/millrace/millrace/bench/internal/target"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "serve-limit" {
		return serveLimit(ctx, args[1:])
	}
	if len(args) == 2 && args[0] == suite.FloodVerb {
		return suite.Flood(ctx, os.Stdin, os.Stdout, args[1])
	}
	return measure(ctx, args)
}

// serveLimit is the main function of the limit's process.
func serveLimit(ctx context.Context, args []string) error {
	var o limit.Options
	f := flag.NewFlagSet("serve-limit", flag.ContinueOnError)
	f.StringVar(&o.Listen, "listen", "127.0.0.1:0", "where to serve")
	f.StringVar(&o.Data, "data", "", "directory for keys and etcd")
	f.IntVar(&o.Pods, "pods", 0, "how many pods a list has")
	if err := f.Parse(args); err != nil {
		return err
	}
	return limit.Run(ctx, o)
}

// options are the flags.
type options struct {
	run, targets                  string
	quick, list                   bool
	rounds, deliveries, streams   int
	lasts                         time.Duration
	millrace, kubeAPIServer, etcd string
	json, docs, profiles, below   string
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&o.run, "run", "", "only cases whose name matches this regular expression")
	f.BoolVar(&o.quick, "quick", false, "the most important cases, briefly: under two minutes")
	f.BoolVar(&o.list, "list", false, "list the cases and end")
	f.IntVar(&o.rounds, "rounds", 0, "how many turns each target gets at each case (3; 2 with --quick)")
	f.DurationVar(&o.lasts, "time", 0, "how long a case lasts that could go on for ever (1.5s; 400ms with --quick)")
	f.IntVar(&o.deliveries, "deliveries", 0, "about how many events a fan-out delivers (200000; 50000 with --quick)")
	f.IntVar(&o.streams, "streams", 100, "how many watches share a connection at most")
	f.StringVar(&o.targets, "targets", "millrace,kubernetes,limit", "what is measured")
	f.StringVar(&o.millrace, "millrace", "", "the millrace program (default: it is built from this module)")
	f.StringVar(&o.kubeAPIServer, "kube-apiserver", "", "the kube-apiserver program (default: in KUBEBUILDER_ASSETS)")
	f.StringVar(&o.etcd, "etcd", "", "the etcd program (default: in KUBEBUILDER_ASSETS)")
	f.StringVar(&o.json, "json", "", "file for all figures")
	f.StringVar(&o.docs, "docs", "", "directory for a page with all figures, and their charts")
	f.StringVar(&o.profiles, "cpuprofile", "", "directory for CPU profiles of the servers, which cost them something")
	f.StringVar(&o.below, "dir", "", "directory in which the servers keep their data for the time of the run (default: the system's)")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("%q is no flag", f.Arg(0))
	}
	o.setDefaults()
	return o, nil
}

func (o *options) setDefaults() {
	rounds, lasts, deliveries := 3, 1500*time.Millisecond, 200_000
	if o.quick {
		rounds, lasts, deliveries = 2, 400*time.Millisecond, 50_000
	}
	if o.rounds <= 0 {
		o.rounds = rounds
	}
	if o.lasts <= 0 {
		o.lasts = lasts
	}
	if o.deliveries <= 0 {
		o.deliveries = deliveries
	}
	o.streams = max(o.streams, 1)
}

func measure(ctx context.Context, args []string) error {
	// CPU time of this client is missing for the servers on the same machine. The client has little memory in use, so
	// garbage is collected rarely.
	debug.SetGCPercent(800)
	o, err := parse(args)
	if err != nil {
		return err
	}
	cases, err := choose(suite.Cases(), o.run, o.quick)
	if err != nil {
		return err
	}
	if o.list {
		fmt.Print(suite.Names(cases))
		return nil
	}
	if o.profiles != "" {
		if err := os.MkdirAll(o.profiles, 0o755); err != nil {
			return err
		}
	}
	directory, err := os.MkdirTemp(o.below, "millrace-bench-program-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(directory)
	targets, err := o.find(ctx, directory)
	if err != nil {
		return err
	}
	var hurry time.Duration
	if o.quick {
		hurry = 40 * time.Second
	}
	scale := suite.Scale{For: o.lasts, Deliveries: o.deliveries, Streams: o.streams, Profiles: o.profiles}
	if !o.quick {
		scale.Settle = settles
	}
	outcomes, runErr := suite.Run(ctx, suite.Plan{Scale: scale, Cases: cases, Targets: targets, Rounds: o.rounds, OneRoundAfter: hurry, Below: o.below, Log: os.Stderr})
	return errors.Join(runErr, o.report(scale, outcomes))
}

// settles is how long servers are left alone before their memory is measured.
const settles = time.Minute

// choose returns the cases whose names match. A pattern chooses among all cases, including those that are not quick.
func choose(all []suite.Case, pattern string, quick bool) ([]suite.Case, error) {
	match, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("--run: %w", err)
	}
	var out []suite.Case
	for _, c := range all {
		if match.MatchString(c.Name) && (pattern != "" || c.Quick || !quick) {
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no case matches %q; --list shows them", pattern)
	}
	return out, nil
}

// find returns the requested targets that are available.
func (o options) find(ctx context.Context, directory string) ([]target.Target, error) {
	var out []target.Target
	for name := range strings.SplitSeq(o.targets, ",") {
		switch name {
		case "millrace":
			program, err := o.build(ctx, directory)
			if err != nil {
				return nil, err
			}
			out = append(out, target.Millrace(program))
		case "kubernetes":
			api, etcd, err := target.FindKubernetes(o.kubeAPIServer, o.etcd)
			if errors.Is(err, fs.ErrNotExist) && o.kubeAPIServer == "" && o.etcd == "" {
				fmt.Fprintln(os.Stderr, "# no peer: set KUBEBUILDER_ASSETS, or --kube-apiserver and --etcd")
				continue
			}
			if err != nil {
				return nil, err
			}
			out = append(out, target.Kubernetes(api, etcd))
		case "limit":
			self, err := os.Executable()
			if err != nil {
				return nil, err
			}
			out = append(out, target.Limit(self))
		default:
			return nil, fmt.Errorf("--targets: %q is none of millrace, kubernetes, limit", name)
		}
	}
	return out, nil
}

// build builds the measured program, unless one is named.
func (o options) build(ctx context.Context, directory string) (string, error) {
	if o.millrace != "" {
		return o.millrace, nil
	}
	program := filepath.Join(directory, "millrace")
	c := exec.CommandContext(ctx, "go", "build", "-o", program, "github.com/millrace/millrace/cmd/millrace")
	c.Stderr = os.Stderr
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("build millrace: %w; run this inside its module, or name a program with --millrace", err)
	}
	return program, nil
}

func (o options) report(scale suite.Scale, outcomes []suite.Outcome) error {
	machine := suite.Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version(), Processors: runtime.NumCPU(), When: time.Now()}
	r := suite.Report{Machine: machine, Scale: scale, Rows: suite.Rows(outcomes), Raw: outcomes}
	if len(r.Rows) == 0 {
		return nil // the error has been printed
	}
	if err := suite.WriteTable(os.Stdout, r.Rows); err != nil {
		return err
	}
	if o.json != "" {
		if err := write(o.json, func(w io.Writer) error { return suite.WriteJSON(w, r) }); err != nil {
			return err
		}
	}
	if o.docs == "" {
		return nil
	}
	return o.page(r)
}

// page writes the charts, the page with the charts, and their figures.
func (o options) page(r suite.Report) error {
	const charts = "figures"
	directory := filepath.Join(o.docs, charts)
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	figures := suite.Plots(r.Rows)
	for _, f := range figures {
		if err := os.WriteFile(filepath.Join(directory, f.File+".svg"), f.SVG, 0o644); err != nil {
			return err
		}
	}
	err := write(filepath.Join(o.docs, "figures.md"), func(w io.Writer) error {
		return suite.WritePage(w, r, figures, charts, "go run ./bench --docs docs")
	})
	r.Raw = nil
	return errors.Join(err, write(filepath.Join(directory, "figures.json"), func(w io.Writer) error { return suite.WriteJSON(w, r) }))
}

func write(path string, text func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(text(f), f.Close())
}
