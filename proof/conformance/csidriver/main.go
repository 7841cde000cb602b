//go:build unix

// The command csidriver stands in for images of Kubernetes' storage tests that cannot be built from published modules:
// the driver csi-driver-host-path, which these tests and those of devices also use as a relay to drivers in their own
// process, its node-driver-registrar, and its livenessprobe. It behaves as the one under whose name it is called.
//
// What is guaranteed: volumes are directories, or files behind loop devices, of one node. They can be cloned, grown,
// attached, and inline volumes of a pod.
//
// What may not be assumed: that there are snapshots, or that a volume that is full refuses more.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// roles are what the command can be, by name.
var roles = map[string]func(context.Context, []string) error{
	"hostpathplugin":            runDriver,
	"csi-node-driver-registrar": runRegistrar,
	"livenessprobe":             runProbe,
}

func main() {
	role := roles[filepath.Base(os.Args[0])]
	if role == nil {
		fmt.Fprintln(os.Stderr, "csidriver: unknown name", os.Args[0])
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := role(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "csidriver:", err)
		os.Exit(1)
	}
}

// newFlags has the flags of all roles. Verbosity, time limits and checks that a role does not have are accepted and not
// used.
func newFlags(unused ...string) *flag.FlagSet {
	f := flag.NewFlagSet(filepath.Base(os.Args[0]), flag.ExitOnError)
	for _, name := range append(unused, "v", "timeout") {
		f.String(name, "", "not used")
	}
	return f
}
