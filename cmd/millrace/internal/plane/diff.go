package plane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/millrace/millrace/cmd/millrace/internal/compare"
)

func diffCommand(f *genericclioptions.ConfigFlags) *cobra.Command {
	var status bool
	c := &cobra.Command{
		Use: "diff ONE OTHER", Args: cobra.ExactArgs(2), Short: "Show which objects two control planes have differently",
		Long: "Show which objects two control planes have differently, field by field: what was tried in a fork, for example. Events,\n" +
			"leases and the certificates of the planes themselves are left out, and statuses without --status. What Secrets hold is not\n" +
			"shown.",
		Example: "  millrace plane fork prod try\n  millrace plane diff prod try",
	}
	c.Flags().BoolVar(&status, "status", false, "compare statuses too")
	c.RunE = connected(f, func(ctx context.Context, c *cobra.Command, h *host) error {
		one, err := h.objects(ctx, c.Flags().Arg(0))
		if err != nil {
			return err
		}
		other, err := h.objects(ctx, c.Flags().Arg(1))
		if err != nil {
			return err
		}
		return differ(c.OutOrStdout(), one, other, status)
	})
	return c
}

// uninteresting are the kinds that say nothing of what somebody wants.
var uninteresting = []string{"events", "leases", "endpoints", "componentstatuses"}

// ownTrust are the config maps with the authorities of the cluster that they are in.
var ownTrust = []string{"kube-root-ca.crt", "extension-apiserver-authentication", "cluster-info"}

// objects returns all objects of a plane, by what people call them.
func (h *host) objects(ctx context.Context, name string) (map[string]map[string]any, error) {
	text, err := h.kubeconfig(ctx, name)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(text)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	known, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	lists, err := known.ServerPreferredResources()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	all := map[string]map[string]any{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || slices.Contains(uninteresting, r.Name) {
				continue
			}
			if err := collect(ctx, client.Resource(gv.WithResource(r.Name)), gv.WithResource(r.Name).GroupResource(), all); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return all, nil
}

// collect adds all objects of a kind.
func collect(ctx context.Context, from dynamic.ResourceInterface, kind schema.GroupResource, all map[string]map[string]any) error {
	o := metav1.ListOptions{Limit: 500}
	for {
		page, err := from.List(ctx, o)
		if err != nil {
			return fmt.Errorf("list %s: %w", kind, err)
		}
		for _, item := range page.Items {
			if slices.Contains(ownTrust, item.GetName()) {
				continue
			}
			where := cmp.Or(item.GetNamespace(), "-")
			all[where+" "+kind.String()+"/"+item.GetName()] = item.Object
		}
		if o.Continue = page.GetContinue(); o.Continue == "" {
			return nil
		}
	}
}

// differ writes what differs.
func differ(out io.Writer, one, other map[string]map[string]any, status bool) error {
	names := maps.Clone(one)
	maps.Copy(names, other)
	differing := 0
	var failed error
	line := func(format string, args ...any) {
		_, err := fmt.Fprintf(out, format+"\n", args...)
		failed = errors.Join(failed, err)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a, b := essence(one[name], status), essence(other[name], status)
		title := compare.Printable(strings.TrimPrefix(name, "- "))
		switch {
		case a == nil:
			line("+ %s", title)
		case b == nil:
			line("- %s", title)
		default:
			all := compare.Differences(a, b)
			if len(all) == 0 {
				continue
			}
			line("~ %s", title)
			for _, d := range all {
				line("    %s", compare.Printable(d.String()))
			}
		}
		differing++
	}
	if differing == 0 {
		line("They have the same objects.")
	}
	return failed
}

// essence returns an object without what differs between any two planes.
func essence(o map[string]any, status bool) map[string]any {
	if o == nil {
		return nil
	}
	o = compare.Essential(o)
	if !status {
		delete(o, "status")
	}
	return o
}
