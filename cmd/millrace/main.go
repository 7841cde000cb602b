// Command millrace runs a Kubernetes control plane: all of it, or single components.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	_ "github.com/millrace/millrace/cmd/millrace/internal/language" // must be initialized before kubectl
	"github.com/millrace/millrace/cmd/millrace/internal/starting"
)

func main() {
	starting.Done()
	if code, called := plugin(); called {
		os.Exit(code)
	}
	if os.Getenv("GOGC") == "" {
		garbage.start()
	}
	if err := commandFor(os.Args[0], os.Args[1:]).Execute(); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "millrace:", line(err))
		os.Exit(1)
	}
}

// untilSignal runs a command until a signal arrives: the first one stops it in order, the second one kills it. The built-in
// kubectl handles signals itself.
func untilSignal(run func(context.Context, *cobra.Command) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, _ []string) error {
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		defer context.AfterFunc(ctx, stop)()
		return run(ctx, c)
	}
}

// root returns all commands but kubectl.
func root() *cobra.Command {
	c := &cobra.Command{
		Use:           "millrace",
		Short:         "The Kubernetes control loop, whole and small",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return fmt.Errorf("%w: see %s --help", err, c.CommandPath()) })
	c.AddCommand(upCommand(), apiserverCommand(), controllersCommand(), schedulerCommand(), kubeletCommand(), dnsCommand(), proxyCommand(), networkCommand(),
		faultsCommand(), tokenCommand(), kubeconfigCommand(), assetsCommand(), versionCommand())
	return c
}
