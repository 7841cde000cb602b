// Package assets is `millrace assets`: a directory with the programs that envtest looks for, which are this program
// under their names.
package assets

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/cmd/millrace/internal/apiserver"
	"github.com/millrace/millrace/cmd/millrace/internal/kubectl"
	"github.com/millrace/millrace/cmd/millrace/internal/standin"
)

// Commands has the commands that the program becomes when it is called by the name of an asset.
var Commands = map[string]func() *cobra.Command{
	"kube-apiserver": apiserver.AssetCommand,
	"etcd":           standin.Command,
	"kubectl":        kubectl.Command,
}

func Command() *cobra.Command {
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
			if err := MakeAssets(directory); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "export KUBEBUILDER_ASSETS=%s\n", directory)
			return err
		},
	}
}

// MakeAssets puts a copy of the program into a directory, with a link for each name. It is a copy because `go run`
// deletes its program at the end.
func MakeAssets(directory string) error {
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
	for asset := range Commands {
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
