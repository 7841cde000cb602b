// Package kubectl is Kubernetes' own kubectl as a subcommand, with a version that tells Millrace's.
package kubectl

import (
	"os"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd"
)

// Command is kubectl's own command as a subcommand.
func Command() *cobra.Command {
	config := genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithDiscoveryBurst(300).WithDiscoveryQPS(50)
	c := cmd.NewKubectlCommand(cmd.KubectlOptions{
		PluginHandler: cmd.NewDefaultPluginHandler([]string{"kubectl"}),
		Arguments:     os.Args,
		ConfigFlags:   config,
		IOStreams:     genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr},
	})
	c.Use = "kubectl"
	c.Short = "kubectl, built in"
	for _, own := range c.Commands() {
		if own.Name() == "version" {
			c.RemoveCommand(own)
		}
	}
	c.AddCommand(kubectlVersionCommand(config))
	addVisible(c, config)
	return c
}
