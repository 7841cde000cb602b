// Command millrace runs a Kubernetes control plane: all of it, or single components.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/cmd/millrace/internal/apiserver"
	"github.com/millrace/millrace/cmd/millrace/internal/assets"
	"github.com/millrace/millrace/cmd/millrace/internal/backup"
	"github.com/millrace/millrace/cmd/millrace/internal/build"
	"github.com/millrace/millrace/cmd/millrace/internal/config"
	"github.com/millrace/millrace/cmd/millrace/internal/controllers"
	"github.com/millrace/millrace/cmd/millrace/internal/data"
	"github.com/millrace/millrace/cmd/millrace/internal/doctor"
	"github.com/millrace/millrace/cmd/millrace/internal/faults"
	"github.com/millrace/millrace/cmd/millrace/internal/flags"
	"github.com/millrace/millrace/cmd/millrace/internal/history"
	"github.com/millrace/millrace/cmd/millrace/internal/kubeconfig"
	"github.com/millrace/millrace/cmd/millrace/internal/kubectl"
	"github.com/millrace/millrace/cmd/millrace/internal/kubelet"
	_ "github.com/millrace/millrace/cmd/millrace/internal/language" // must be initialized before kubectl
	"github.com/millrace/millrace/cmd/millrace/internal/manual"
	"github.com/millrace/millrace/cmd/millrace/internal/memory"
	"github.com/millrace/millrace/cmd/millrace/internal/network"
	"github.com/millrace/millrace/cmd/millrace/internal/pagelink"
	"github.com/millrace/millrace/cmd/millrace/internal/plane"
	"github.com/millrace/millrace/cmd/millrace/internal/scheduler"
	"github.com/millrace/millrace/cmd/millrace/internal/serving"
	"github.com/millrace/millrace/cmd/millrace/internal/starting"
	"github.com/millrace/millrace/cmd/millrace/internal/status"
	"github.com/millrace/millrace/cmd/millrace/internal/token"
	"github.com/millrace/millrace/cmd/millrace/internal/up"
)

func main() {
	starting.Done()
	if code, called := network.Plugin(); called {
		os.Exit(code)
	}
	if os.Getenv("GOGC") == "" {
		memory.Garbage.Start()
	}
	if err := commandFor(os.Args[0], os.Args[1:]).Execute(); err != nil && !errors.Is(err, context.Canceled) {
		for _, line := range serving.Lines(err) {
			fmt.Fprintln(os.Stderr, "millrace:", line)
		}
		os.Exit(1)
	}
}

// root returns all commands but kubectl.
func root() *cobra.Command {
	var version bool
	c := &cobra.Command{
		Use:           "millrace",
		Short:         "The Kubernetes control loop, whole and small",
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(c *cobra.Command, _ []string) error {
			if version {
				return build.Read().Print(c.OutOrStdout(), "")
			}
			return c.Help()
		},
	}
	c.Flags().BoolVar(&version, "version", false, "print the version and end")
	c.SetFlagErrorFunc(flags.Mistake)
	c.AddCommand(up.Command(), apiserver.Command(), controllers.Command(), scheduler.Command(), kubelet.Command(), network.DNSCommand(), network.ProxyCommand(), network.Command(),
		status.Command(), doctor.Command(), faults.Command(), token.Command(), kubeconfig.Command(), pagelink.Command(), data.Command(),
		history.Command(), history.AtCommand(), history.UndoCommand(), history.WhyCommand(), history.EffectsCommand(), history.FightsCommand(),
		plane.Command(), backup.Command(), backup.RestoreCommand(), backup.VerifyCommand(), assets.Command(), build.Command(), manual.Command(), config.Command(up.Command()))
	c.SetHelpCommand(helpCommand())
	refuseUnknown(c)
	return c
}

// programs are those of Kubernetes: this one acts as each of them when it is called by its name.
var programs = map[string]func() *cobra.Command{
	"kube-controller-manager": controllers.Command,
	"kube-scheduler":          scheduler.Command,
	"kubelet":                 kubelet.Program,
	"kube-proxy":              network.ProxyCommand,
}

// programFor returns the command of a program or of an asset (kube-apiserver is one) by its name; nil if it is none.
func programFor(name string) *cobra.Command {
	make, ok := programs[name]
	if !ok {
		if make, ok = assets.Commands[name]; !ok {
			return nil
		}
	}
	c := make()
	c.Use = name
	c.SilenceUsage, c.SilenceErrors = true, true
	c.SetFlagErrorFunc(flags.Mistake)
	return c
}

// commandFor returns the command for the program's name and arguments: of a program only that command, otherwise all
// commands. kubectl is left out if another command is called: it consists of a hundred commands, of which 0.5 MB would
// stay for as long as the process lives.
func commandFor(calledAs string, args []string) *cobra.Command {
	if c := programFor(filepath.Base(calledAs)); c != nil {
		return c
	}
	c := root()
	if called, _, err := c.Find(args); err != nil || called == c {
		c.AddCommand(kubectl.Command())
	}
	return c
}
