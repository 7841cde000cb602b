// Command millrace runs a Kubernetes control plane: whole, or one part of it alone.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	_ "github.com/millrace/millrace/cmd/millrace/internal/language" // before kubectl
)

func main() {
	if code, called := plugin(); called {
		os.Exit(code)
	}
	if os.Getenv("GOGC") == "" {
		collect()
	}
	if err := commandFor(os.Args[0]).Execute(); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "millrace:", line(err))
		os.Exit(1)
	}
}

// untilSignal makes a command of what ends with a context: the first signal asks for an orderly end, the second one kills.
// The built-in kubectl has its own ways.
func untilSignal(run func(context.Context, *cobra.Command) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, _ []string) error {
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		defer context.AfterFunc(ctx, stop)()
		return run(ctx, c)
	}
}

func root() *cobra.Command {
	c := &cobra.Command{
		Use:           "millrace",
		Short:         "The Kubernetes control loop, whole and small",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return fmt.Errorf("%w: see %s --help", err, c.CommandPath()) })
	c.AddCommand(upCommand(), apiserverCommand(), controllersCommand(), schedulerCommand(), kubeletCommand(), dnsCommand(), proxyCommand(), networkCommand(),
		faultsCommand(), tokenCommand(), kubectlCommand(), kubeconfigCommand(), assetsCommand(), versionCommand())
	return c
}
