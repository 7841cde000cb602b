package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace"
)

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
