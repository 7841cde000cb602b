//go:build unix

// The command conformance runs Kubernetes' own end-to-end tests, by default the 446 by which a cluster is certified,
// and prints how many pass.
//
//	go run ./proof/conformance DIRECTORY                        all conformance tests on two nodes, which it starts and removes
//	go run ./proof/conformance --focus 'StatefulSet' DIRECTORY   some of them
//	go run ./proof/conformance --kubeconfig FILE DIRECTORY      on a cluster that exists, whose nodes may pull from localhost:5000
//	go run ./proof/conformance --hollow DIRECTORY               those that need no real containers, on hollow nodes: no root, no images
//	go run ./proof/conformance --hollow --quick DIRECTORY       those of them that take less than a minute
//	go run ./proof/conformance --hollow --kubeconfig FILE --measure PID,PID DIRECTORY   the same on another cluster, and what its processes have used
//
// The status is 1 if a test fails, and 3 if the tests cannot be built because their module cannot be downloaded.
//
// It builds everything itself: the tests and their tools from Kubernetes' published module, a containerd from its own,
// and the images that the tests name from Debian's packages (kit.go, root.go, images.go). DIRECTORY keeps what was
// built for the next run, and the logs. It needs Linux, root and 15 GB; the first run builds for some 30 minutes on two
// processors.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// version is the newest Kubernetes whose module is published with its tests.
const version = "1.36.3"

// registryAddress is where the nodes find the images: containerd uses plain HTTP for localhost.
const registryAddress = "localhost:5000"

// noModule is the status if a module cannot be downloaded.
const noModule = 3

func main() {
	if len(os.Args) == 3 && os.Args[1] == registryVerb {
		exitOn(serveRegistry(os.Args[2]))
		return
	}
	s := suite{}
	flag.StringVar(&s.focus, "focus", `\[Conformance\]`, "run the tests whose names match this regular expression")
	flag.StringVar(&s.skip, "skip", "", "leave out the tests whose names match this regular expression")
	flag.IntVar(&s.procs, "procs", 10, "run this many tests at a time; most of the time they wait")
	flag.StringVar(&s.kubeconfig, "kubeconfig", "", "test this cluster; without it, two nodes are started and removed")
	flag.Func("measure", "print in the end what these processes have used: their IDs, separated by commas", func(text string) error {
		s.measured = strings.Split(text, ",")
		return nil
	})
	hollow := flag.Bool("hollow", false, "run the tests that need no real containers, on hollow nodes")
	quick := flag.Bool("quick", false, "with --hollow: leave out the tests that take long")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: conformance [flags] DIRECTORY")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *hollow {
		exitOn(runHollow(ctx, s, flag.Arg(0), *quick))
		return
	}
	exitOn(run(ctx, s, flag.Arg(0)))
}

func exitOn(err error) {
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "conformance:", err)
	if errors.Is(err, errNoModule) {
		os.Exit(noModule)
	}
	os.Exit(1)
}

func run(ctx context.Context, s suite, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	k := kit{dir: dir}
	if err := k.build(ctx); err != nil {
		return err
	}
	if s.kubeconfig == "" {
		n := nodes{kit: k, dir: filepath.Join(dir, "nodes")}
		defer n.stop()
		if s.kubeconfig, err = n.start(ctx); err != nil {
			return err
		}
		defer n.report()
	}
	return s.run(ctx, k)
}
