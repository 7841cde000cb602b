package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// assets has the commands that the program becomes when it is called by the name of an asset.
var assets = map[string]func() *cobra.Command{
	"kube-apiserver": assetServerCommand,
	"etcd":           standInCommand,
	"kubectl":        kubectlCommand,
}

// commandFor returns the command for the program's name and arguments: of an asset only that command, otherwise all commands. kubectl is left
// out if another command is called: it consists of a hundred commands, of which 0.5 MB would stay for as long as the process lives.
func commandFor(calledAs string, args []string) *cobra.Command {
	if asset, ok := assets[filepath.Base(calledAs)]; ok {
		c := asset()
		c.SilenceUsage, c.SilenceErrors = true, true
		return c
	}
	c := root()
	if called, _, err := c.Find(args); err != nil || called == c {
		c.AddCommand(kubectlCommand())
	}
	return c
}

func assetsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "assets DIR",
		Short: "Make a directory for KUBEBUILDER_ASSETS",
		Long: "Make a directory for KUBEBUILDER_ASSETS, in which envtest (controller-runtime's, or another language's) finds\n" +
			"kube-apiserver, etcd and kubectl: this program, called by these names.\n\n" +
			"kube-apiserver keeps its objects in memory, and they end with it; etcd only answers health checks. If\n" +
			"--etcd-servers names a real etcd, kube-apiserver uses that.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			directory, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			if err := makeAssets(directory); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "export KUBEBUILDER_ASSETS=%s\n", directory)
			return err
		},
	}
}

// makeAssets puts a copy of the program into a directory, with a link for each name. It is a copy because `go run` deletes its
// program at the end.
func makeAssets(directory string) error {
	own, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	const name = "millrace"
	if err := copyProgram(own, filepath.Join(directory, name)); err != nil {
		return fmt.Errorf("copy the program: %w", err)
	}
	for asset := range assets {
		link := filepath.Join(directory, asset)
		if err := os.Remove(link); err != nil && !os.IsNotExist(err) {
			return err
		}
		if err := os.Symlink(name, link); err != nil {
			return err
		}
	}
	return nil
}

// copyProgram replaces a file atomically, so that a process that runs the old one is not disturbed.
func copyProgram(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.CreateTemp(filepath.Dir(to), ".millrace-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(out.Name())
		}
	}()
	if _, err = io.Copy(out, in); err == nil {
		err = out.Chmod(0o755)
	}
	if closed := out.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(out.Name(), to)
}
