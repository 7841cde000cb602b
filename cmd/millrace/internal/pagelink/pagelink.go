// Package pagelink is `millrace page`: a link to the page of a cluster, for a browser.
package pagelink

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/cmd/millrace/internal/flags"
	"github.com/millrace/millrace/cmd/millrace/internal/serving"
	"github.com/millrace/millrace/internal/server/page"
)

// Command is `millrace page`.
func Command() *cobra.Command {
	cluster := genericclioptions.NewConfigFlags(true)
	var groups []string
	c := &cobra.Command{
		Use: "page", Args: cobra.NoArgs,
		Short: "Print a link to the page of a cluster, for a browser",
		Long: "Print a link to the page of a cluster. It can be used once, within ten minutes. The page shows what the user of the\n" +
			"kubeconfig may read. For another user, that one must be allowed to impersonate the user and the groups.",
		Example: "  millrace page\n  millrace page --user alice --group developers",
		RunE: flags.UntilSignal(func(ctx context.Context, c *cobra.Command) error {
			cluster.ImpersonateGroup = &groups
			link, err := link(ctx, cluster)
			if err == nil {
				_, err = fmt.Fprintln(c.OutOrStdout(), link)
			}
			return err
		}),
	}
	fl := c.Flags()
	cluster.KubeConfig = fl.String("kubeconfig", "", "kubeconfig of the cluster (default: $KUBECONFIG, ~/.kube/config, or that of the default data directory)")
	fl.StringVar(cluster.Context, "context", "", "context of the kubeconfig")
	fl.StringVar(cluster.Impersonate, "user", "", "user who is shown the page (default: that of the kubeconfig)")
	fl.StringSliceVar(&groups, "group", nil, "groups of the --user; may be repeated")
	return c
}

// link asks the server for a link.
func link(ctx context.Context, f *genericclioptions.ConfigFlags) (string, error) {
	serving.UseOwnKubeconfig(f)
	config, err := f.ToRESTConfig()
	if err != nil {
		return "", err
	}
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	config.GroupVersion, config.APIPath = &schema.GroupVersion{Version: "v1"}, "/"
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return "", err
	}
	answer := client.Post().AbsPath(page.LinkPath).SetHeader("Accept", "application/json").Timeout(time.Minute).Do(ctx)
	err = answer.Error() // Raw has an error without the server's words
	if apierrors.IsNotFound(err) {
		return "", fmt.Errorf("the server at %s serves no page: start it with --page", config.Host)
	}
	if err != nil {
		return "", err
	}
	b, err := answer.Raw()
	if err != nil {
		return "", err
	}
	var made page.Made
	if err := json.Unmarshal(b, &made); err != nil {
		return "", fmt.Errorf("the answer of %s cannot be read: %w", config.Host, err)
	}
	return made.URL(config.Host), nil
}
