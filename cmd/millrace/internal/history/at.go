package history

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/millrace/millrace/cmd/millrace/internal/flags"
)

// AtCommand is `millrace at`.
func AtCommand() *cobra.Command {
	var name string
	c := &cobra.Command{
		Use: "at WHEN [COMMAND...]", Args: cobra.MinimumNArgs(1),
		Short: "Run a command against the cluster as it was",
		Long: "Run a command, such as kubectl, against the cluster as it was at a moment: a revision (1234), a time\n" +
			"(2026-11-29T12:00:00Z), or how long ago (10m). The command gets a kubeconfig by $KUBECONFIG. Nothing can be changed.\n\n" +
			"Without a command the URL of the moment is printed; --save-context keeps it in the kubeconfig.",
		Example: "  millrace at 10m kubectl get pods -A -o wide\n  millrace at 2026-11-29T12:00:00Z k9s\n  millrace at 1h --save-context before-the-change",
	}
	cluster := newFlags(c)
	c.Flags().SetInterspersed(false)
	c.Flags().StringVar(&name, "save-context", "", "add a context of this name to the kubeconfig")
	c.RunE = flags.UntilSignal(func(ctx context.Context, c *cobra.Command) error {
		args := c.Flags().Args()
		m, err := findMoment(ctx, cluster, args[0])
		switch {
		case err != nil:
			return err
		case name != "":
			return m.save(c, name)
		case len(args) == 1:
			_, err := fmt.Fprintln(c.OutOrStdout(), m.server)
			return err
		}
		return m.run(ctx, c, args[1:])
	})
	return c
}

// moment is a cluster as it was.
type moment struct {
	flags    *genericclioptions.ConfigFlags
	revision string
	server   string // its URL
}

// findMoment asks the server which revision a moment has.
func findMoment(ctx context.Context, f *genericclioptions.ConfigFlags, when string) (*moment, error) {
	client, err := connect(f)
	if err != nil {
		return nil, err
	}
	config, err := f.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	var told struct {
		Revision string `json:"revision"`
	}
	if err := read(ctx, client.Get().AbsPath("/at/"+url.PathEscape(when)), &told); err != nil {
		return nil, fmt.Errorf("ask %s for the moment %s: %w", config.Host, when, err)
	}
	return &moment{flags: f, revision: told.Revision, server: strings.TrimSuffix(config.Host, "/") + "/at/" + told.Revision}, nil
}

// config returns the kubeconfig of the moment, with one context.
func (m *moment) config() (*clientcmdapi.Config, error) {
	config, err := m.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, err
	}
	if *m.flags.Context != "" {
		config.CurrentContext = *m.flags.Context
	}
	if err := clientcmdapi.MinifyConfig(&config); err != nil {
		return nil, err
	}
	if err := clientcmdapi.FlattenConfig(&config); err != nil {
		return nil, err
	}
	for _, cluster := range config.Clusters {
		cluster.Server = m.server
	}
	if namespace := *m.flags.Namespace; namespace != "" {
		config.Contexts[config.CurrentContext].Namespace = namespace
	}
	return &config, nil
}

// save adds a context to the kubeconfig.
func (m *moment) save(c *cobra.Command, name string) error {
	config, err := m.config()
	if err != nil {
		return err
	}
	access := m.flags.ToRawKubeConfigLoader().ConfigAccess()
	all, err := access.GetStartingConfig()
	if err != nil {
		return err
	}
	if all.Contexts[name] != nil {
		return fmt.Errorf("the kubeconfig has a context %q already", name)
	}
	now := config.Contexts[config.CurrentContext]
	all.Clusters[name], all.Contexts[name] = config.Clusters[now.Cluster], &clientcmdapi.Context{Cluster: name, AuthInfo: now.AuthInfo, Namespace: now.Namespace}
	if err := clientcmd.ModifyConfig(access, *all, true); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "The context %q is the cluster at revision %s: kubectl --context %s get pods\n", name, m.revision, name)
	return err
}

// run runs a command with a kubeconfig of the moment.
func (m *moment) run(ctx context.Context, c *cobra.Command, args []string) (err error) {
	config, err := m.config()
	if err != nil {
		return err
	}
	directory, err := os.MkdirTemp("", "millrace-at-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(directory)) }()
	file := filepath.Join(directory, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		return err
	}
	if _, err := exec.LookPath(args[0]); err != nil && args[0] == "kubectl" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		args = append([]string{self}, args...)
	}
	command := exec.CommandContext(ctx, args[0], args[1:]...)
	command.Env = append(os.Environ(), "KUBECONFIG="+file)
	command.Stdin, command.Stdout, command.Stderr = c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr()
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = endTime
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	return nil
}

// endTime is how long a command may take to end after Ctrl-C.
const endTime = 10 * time.Second
