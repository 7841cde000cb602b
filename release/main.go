// Command release makes everything that a release of Millrace consists of, on one machine and without a network beside
// Go's modules: static programs, archives, packages of Debian and RPM, an image, lists of what is inside, and checksums.
// The same commit makes the same bytes, wherever it is built.
//
//	cd release
//	go run . -snapshot -out /tmp/dist       # what is in the work tree now
//	go run .                                # a release: HEAD has a tag, and nothing differs from it
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	source, out string
	targets     []target
	pgo         string
	snapshot    bool
}

func parse(args []string) (o options, err error) {
	fl := flag.NewFlagSet("release", flag.ContinueOnError)
	fl.StringVar(&o.source, "source", "..", "directory of the repository")
	fl.StringVar(&o.out, "out", "dist", "directory to write to; it must be empty or absent")
	fl.StringVar(&o.pgo, "pgo", "auto", `"off" builds without the profile, in less than half the time, for a try`)
	fl.BoolVar(&o.snapshot, "snapshot", false, "build HEAD without a tag, with what is changed in the work tree")
	only := fl.String("targets", "", "build only these, separated by commas: linux/amd64 (default: "+names(all)+")")
	if err := fl.Parse(args); err != nil {
		return o, err
	}
	if fl.NArg() > 0 {
		return o, fmt.Errorf("what is %q?", fl.Arg(0))
	}
	if o.targets, err = choose(*only); err != nil {
		return o, err
	}
	if o.source, err = filepath.Abs(o.source); err != nil {
		return o, err
	}
	o.out, err = filepath.Abs(o.out)
	return o, err
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if err := empty(o.out); err != nil {
		return err
	}
	from, err := readCommit(ctx, o.source, o.snapshot)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "millrace-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	r := &release{options: o, commit: from, work: work}
	return r.make(ctx)
}

// empty makes a directory, and refuses one that has files.
func empty(directory string) error {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	files, err := os.ReadDir(directory)
	if err == nil && len(files) > 0 {
		return fmt.Errorf("%s is not empty: remove it, or name another with -out", directory)
	}
	return err
}

// release is one release that is made.
type release struct {
	options
	commit commit
	// work has what is made on the way: the programs, manual pages and completions.
	work    string
	version string
}

// make does everything in order.
func (r *release) make(ctx context.Context) error {
	if err := r.learnVersion(ctx); err != nil {
		return err
	}
	for _, t := range r.targets {
		if err := r.step("build "+t.String(), func() error { return r.build(ctx, t) }); err != nil {
			return err
		}
	}
	var linux []target
	for _, t := range r.targets {
		if err := r.step("pack "+t.String(), func() error { return r.pack(t) }); err != nil {
			return err
		}
		if t.os == "linux" {
			linux = append(linux, t)
		}
	}
	if len(linux) > 0 {
		if err := r.step("image for "+names(linux), func() error { return r.image(linux) }); err != nil {
			return err
		}
	}
	return r.step("checksums", func() error { return checksums(r.out) })
}

// pack makes the archive, the list of modules and, for Linux, the packages of a target.
func (r *release) pack(t target) error {
	if err := r.archive(t); err != nil {
		return err
	}
	if err := r.billOfMaterials(t); err != nil {
		return err
	}
	if t.os != "linux" {
		return nil
	}
	return r.packages(t)
}

// step says what is done, and how long it took.
func (r *release) step(what string, do func() error) error {
	fmt.Printf("%s … ", what)
	began := time.Now()
	if err := do(); err != nil {
		fmt.Println("failed")
		return fmt.Errorf("%s: %w", what, err)
	}
	fmt.Println(time.Since(began).Round(time.Second / 10))
	return nil
}

// name returns the name of a file of the release.
func (r *release) name(parts ...string) string {
	return filepath.Join(r.out, "millrace_"+r.version+"_"+strings.Join(parts, "_"))
}
