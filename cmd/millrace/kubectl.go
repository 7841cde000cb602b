package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd"

	"github.com/millrace/millrace"
)

// kubectlCommand is kubectl's own command, under the name of one of ours.
func kubectlCommand() *cobra.Command {
	c := cmd.NewKubectlCommand(cmd.KubectlOptions{
		PluginHandler: cmd.NewDefaultPluginHandler([]string{"kubectl"}),
		Arguments:     os.Args,
		ConfigFlags:   genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithDiscoveryBurst(300).WithDiscoveryQPS(50),
		IOStreams:     genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr},
	})
	c.Use = "kubectl"
	c.Short = "kubectl, built in"
	return c
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			v := millrace.Version()
			_, err := fmt.Fprintf(c.OutOrStdout(), "millrace %s, speaking Kubernetes %s.%s, %s %s\n", v.GitVersion, v.Major, v.Minor, v.GoVersion, v.Platform)
			return err
		},
	}
}
