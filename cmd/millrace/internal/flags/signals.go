package flags

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// UntilSignal runs a command until a signal arrives: the first one stops it in order, the second one kills it. The
// built-in kubectl handles signals itself.
func UntilSignal(run func(context.Context, *cobra.Command) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, _ []string) error {
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		defer context.AfterFunc(ctx, stop)()
		return run(ctx, c)
	}
}
