// Package kubeconfig is `millrace kubeconfig`: a kubeconfig for a user, with a certificate that the cluster's own CA
// signs.
package kubeconfig

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/cmd/millrace/internal/serving"
)

// kubeconfigFlags are the flags of `millrace kubeconfig`.
type kubeconfigFlags struct {
	data, keys, server, user, out string
	groups                        []string
	life                          time.Duration
}

func Command() *cobra.Command {
	f := &kubeconfigFlags{}
	c := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Write a kubeconfig for a user",
		Long: "Write a kubeconfig for a user with groups, whose permissions are the roles of the cluster. It has a client certificate\n" +
			"that is signed by the cluster's own CA, whose key is in the data directory.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c.OutOrStdout()) },
	}
	fl := c.Flags()
	fl.StringVar(&f.user, "user", "", "name of the user")
	fl.StringSliceVar(&f.groups, "group", nil, "groups of the user; may be repeated")
	fl.StringVar(&f.data, "data", serving.DefaultData(), "data directory of the cluster")
	fl.StringVar(&f.keys, "cert-dir", "", "directory of keys and certificates (default: pki in the data directory)")
	fl.StringVar(&f.server, "server", "", "URL of the API (default: that of the administrator's kubeconfig in the data directory)")
	fl.StringVarP(&f.out, "output", "o", "", "file to write (default: standard output)")
	fl.DurationVar(&f.life, "valid-for", 365*24*time.Hour, "validity of the certificate")
	return c
}

func (f *kubeconfigFlags) run(out io.Writer) error {
	if f.user == "" {
		return errors.New("--user is needed")
	}
	if f.life <= 0 {
		return fmt.Errorf("--valid-for %v is not more than 0", f.life)
	}
	if f.keys == "" {
		f.keys = filepath.Join(f.data, "pki")
	}
	if f.server == "" {
		var err error
		if f.server, err = serverOf(filepath.Join(f.data, "kubeconfig")); err != nil {
			return err
		}
	}
	text, err := millrace.UserKubeconfig(f.keys, f.server, f.user, f.groups, f.life)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: name the directory of a cluster with --data", err)
	}
	if err != nil {
		return err
	}
	if f.out == "" {
		_, err = out.Write(text)
		return err
	}
	return os.WriteFile(f.out, text, 0o600)
}

// serverOf returns the server's URL in a kubeconfig.
func serverOf(path string) (string, error) {
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return "", fmt.Errorf("find the server: %w: name it with --server", err)
	}
	at, ok := config.Contexts[config.CurrentContext]
	if !ok || config.Clusters[at.Cluster] == nil {
		return "", fmt.Errorf("find the server: %s names none: name it with --server", path)
	}
	return config.Clusters[at.Cluster].Server, nil
}
