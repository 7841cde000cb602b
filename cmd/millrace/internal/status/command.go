// Package status is `millrace status`: what a cluster is, how much is in it, and what is wrong with it. All of it comes
// from the API and the server's metrics, so that it is told of any cluster that a kubeconfig names; what the user may
// not read is left out, and said.
package status

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/millrace/millrace/cmd/millrace/internal/flags"
	"github.com/millrace/millrace/cmd/millrace/internal/serving"
)

// Command is `millrace status`.
func Command() *cobra.Command {
	cluster := genericclioptions.NewConfigFlags(true)
	c := &cobra.Command{
		Use: "status", Args: cobra.NoArgs,
		Short: "Tell what runs, since when, how much is in it, and what is wrong",
		Long: "Tell what runs, since when, how much is in it, and what is wrong. Without a kubeconfig it is the cluster of the default\n" +
			"data directory. It fails if the API does not answer or is not ready.",
		RunE: flags.UntilSignal(func(ctx context.Context, c *cobra.Command) error {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			serving.UseOwnKubeconfig(cluster)
			config, err := cluster.ToRESTConfig()
			if err != nil {
				return err
			}
			from, err := connect(config)
			if err != nil {
				return err
			}
			r, err := from.read(ctx, time.Now())
			if err != nil {
				return err
			}
			if err := r.print(c.OutOrStdout()); err != nil || r.ready {
				return err
			}
			return errors.New("the API is not ready")
		}),
	}
	fl := c.Flags()
	cluster.KubeConfig = fl.String("kubeconfig", "", "kubeconfig of the cluster (default: $KUBECONFIG, ~/.kube/config, or that of the default data directory)")
	fl.StringVar(cluster.Context, "context", "", "context of the kubeconfig")
	return c
}
