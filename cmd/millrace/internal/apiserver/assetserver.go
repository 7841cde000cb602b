package apiserver

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/cmd/millrace/internal/flags"
	"github.com/millrace/millrace/cmd/millrace/internal/serving"
	"github.com/millrace/millrace/cmd/millrace/internal/standin"
)

// AssetCommand is the API server as envtest starts it: with kube-apiserver's flags, in memory, beside a stand-in for
// etcd.
func AssetCommand() *cobra.Command {
	f := &Flags{}
	c := &cobra.Command{
		Use:   "kube-apiserver",
		Short: "Run the API server alone, as a test suite starts it",
		Args:  cobra.NoArgs,
		RunE: flags.UntilSignal(func(ctx context.Context, c *cobra.Command) error {
			if f.version.Print(c.OutOrStdout()) {
				return nil
			}
			log, err := f.Log.Logger(os.Stderr)
			if err != nil {
				return err
			}
			if len(f.Etcd.Servers) == 0 {
				return errors.New("--etcd-servers must be specified")
			}
			standsIn, release, err := standin.Claim(ctx, f.Etcd.Servers)
			if err != nil {
				return err
			}
			if standsIn {
				defer release()
				f.Data, f.Etcd.Servers = "memory", nil
			}
			o, err := f.Options(log)
			if err != nil {
				return err
			}
			f.warn(log)
			return serveAsset(ctx, o)
		}),
	}
	f.Register(c)
	return c
}

// serveAsset serves until ctx ends, and prints nothing unless there is a problem.
func serveAsset(ctx context.Context, o millrace.Options) error {
	cluster, err := millrace.Start(ctx, o)
	if err != nil {
		return serving.Explain(err, o, "--bind-address and --secure-port")
	}
	select {
	case <-ctx.Done():
		return cluster.Close()
	case err := <-cluster.Failed():
		return errors.Join(fmt.Errorf("kube-apiserver: %w", err), cluster.Close())
	}
}
