// Package kubectl is Kubernetes' own kubectl as a subcommand, with a version that tells Millrace's.
package kubectl

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/plugin"

	"github.com/millrace/millrace/cmd/millrace/internal/serving"
)

// Command is kubectl's own command as a subcommand.
func Command() *cobra.Command {
	arguments := own(os.Args)
	if arguments != nil {
		useOwnKubeconfig()
	}
	return command(arguments, cmd.NewDefaultPluginHandler(plugin.ValidPluginFilenamePrefixes))
}

// own returns the arguments that are kubectl's, the first of which is its name; nil if something else is called.
func own(all []string) []string {
	switch {
	case len(all) > 0 && filepath.Base(all[0]) == "kubectl":
		return all
	case len(all) > 1 && all[1] == "kubectl":
		return all[1:]
	}
	return nil
}

// useOwnKubeconfig lets kubectl and its plugins find the cluster of the default data directory if there is no other.
func useOwnKubeconfig() {
	f := genericclioptions.NewConfigFlags(false)
	if serving.UseOwnKubeconfig(f); *f.KubeConfig != "" {
		_ = os.Setenv("KUBECONFIG", *f.KubeConfig) // a path without a zero byte: it cannot fail
	}
}

// command makes the command. If the arguments name no command, but a plugin, that one runs.
func command(arguments []string, plugins cmd.PluginHandler) *cobra.Command {
	config := genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithDiscoveryBurst(300).WithDiscoveryQPS(50)
	c := cmd.NewDefaultKubectlCommandWithArgs(cmd.KubectlOptions{
		PluginHandler: plugins,
		Arguments:     arguments,
		ConfigFlags:   config,
		IOStreams:     genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr},
	})
	c.Use = "kubectl"
	c.Short = "kubectl, built in"
	for _, theirs := range c.Commands() {
		if theirs.Name() == "version" {
			c.RemoveCommand(theirs)
		}
	}
	c.AddCommand(kubectlVersionCommand(config))
	addVisible(c, config)
	return c
}
