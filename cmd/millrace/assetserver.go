package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace"
)

// assetServerCommand is the API server as envtest starts it: with kube-apiserver's flags, in memory, beside a stand-in for etcd.
func assetServerCommand() *cobra.Command {
	f := &apiserverFlags{}
	c := &cobra.Command{
		Use:   "kube-apiserver",
		Short: "Run the API server alone, as a test suite starts it",
		Args:  cobra.NoArgs,
		RunE: untilSignal(func(ctx context.Context, c *cobra.Command) error {
			if f.version.print(c.OutOrStdout()) {
				return nil
			}
			log, err := f.log.logger(os.Stderr)
			if err != nil {
				return err
			}
			if len(f.etcdServers) == 0 {
				return errors.New("--etcd-servers must be specified")
			}
			standsIn, release, err := claimStandIn(ctx, f.etcdServers)
			if err != nil {
				return err
			}
			if standsIn {
				defer release()
				f.data, f.etcdServers = "memory", nil
			}
			o, err := f.options(log)
			if err != nil {
				return err
			}
			unusedOfServer.warn(c.Flags(), "kube-apiserver", log)
			return serveAsset(ctx, o)
		}),
	}
	f.register(c)
	return c
}

// serveAsset serves until ctx ends, and prints nothing unless there is a problem.
func serveAsset(ctx context.Context, o millrace.Options) error {
	cluster, err := millrace.Start(ctx, o)
	if err != nil {
		return explain(err, o, "--bind-address and --secure-port")
	}
	select {
	case <-ctx.Done():
		return cluster.Close()
	case err := <-cluster.Failed():
		return errors.Join(fmt.Errorf("kube-apiserver: %w", err), cluster.Close())
	}
}
