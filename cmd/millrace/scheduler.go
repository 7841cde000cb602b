package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/scheduler"
)

func schedulerCommand() *cobra.Command {
	var f clientFlags
	var e electionFlags
	c := &cobra.Command{
		Use:   "scheduler",
		Short: "Run the scheduler alone",
		Long:  "Run the scheduler alone, with the flags of kube-scheduler, against any Kubernetes API server.",
		Args:  cobra.NoArgs,
		RunE: untilSignal(func(ctx context.Context, c *cobra.Command) error {
			election, err := e.election()
			if err != nil {
				return err
			}
			clients, _, err := f.clients(c.OutOrStdout())
			if err != nil {
				return err
			}
			var runner loop.Runner = scheduler.New(scheduler.For(clients))
			if election != nil {
				runner = loop.Elected(clients, *election, runner)
			}
			return loop.Run(ctx, clients, runner)
		}),
	}
	f.add(c)
	e.add(c, "kube-scheduler")
	return c
}
