// Command millrace runs a Kubernetes control plane: whole, or one part of it alone.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
)

// gcPercent makes the collector run at half the usual growth: most of a server's memory is state that lives long, and
// marking it costs little because it has few pointers. GOGC in the environment overrules it.
const gcPercent = 50

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	// The first signal asks for an orderly end, the second one kills.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() { // ends with the process
		<-ctx.Done()
		stop()
	}()
	if err := root().ExecuteContext(ctx); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "millrace:", err)
		os.Exit(1)
	}
}

func root() *cobra.Command {
	c := &cobra.Command{
		Use:           "millrace",
		Short:         "The Kubernetes control loop, whole and small",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	c.AddCommand(upCommand(), kubectlCommand(), versionCommand())
	return c
}
