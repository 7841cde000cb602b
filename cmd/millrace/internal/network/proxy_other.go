//go:build !linux

package network

import (
	"errors"

	"github.com/spf13/cobra"
)

func ProxyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "proxy",
		Short: "Run the service proxy on this machine (Linux only)",
		RunE: func(*cobra.Command, []string) error {
			return errors.New("services need the nf_tables of a Linux kernel")
		},
	}
}
