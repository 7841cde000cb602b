package kubectl

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	kubectlversion "k8s.io/kubectl/pkg/cmd/version"
	"sigs.k8s.io/yaml"

	"github.com/millrace/millrace"
)

// kubectlModule is the module whose version is the built-in kubectl's: v0.37.2 means Kubernetes v1.37.2.
const kubectlModule = "k8s.io/kubectl"

// clientVersion returns the version of the built-in kubectl. Kubernetes' own kubectl gets it from linker flags, which
// `go build` does not set.
func clientVersion() version.Info {
	v := version.Info{Major: "1", GitVersion: millrace.Version().GitVersion, GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == kubectlModule {
				v.GitVersion = "v1" + strings.TrimPrefix(m.Version, "v0")
			}
		}
	}
	if parsed, err := utilversion.ParseSemantic(v.GitVersion); err == nil {
		v.Minor = fmt.Sprint(parsed.Minor())
	}
	return v
}

// versions is the output of `kubectl version`, in kubectl's own format.
type versions struct {
	Client    version.Info  `json:"clientVersion,omitempty"`
	Kustomize string        `json:"kustomizeVersion,omitempty"`
	Server    *version.Info `json:"serverVersion,omitempty"`
}

// kubectlVersionCommand replaces kubectl's own, which would print a version that no program can parse, and would fail
// to compare it with the server's.
func kubectlVersionCommand(config *genericclioptions.ConfigFlags) *cobra.Command {
	var clientOnly bool
	var output string
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the client and server version information",
		Long:    "Print the client and server version information for the current context.",
		Example: "  # Print the client and server versions for the current context\n  kubectl version",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if output != "" && output != "yaml" && output != "json" {
				return errors.New("--output must be 'yaml' or 'json'")
			}
			v := versions{Client: clientVersion()}
			v.Kustomize, _ = kubectlversion.GetKustomizeModVersion()
			var unreachable error
			if !clientOnly {
				v.Server, unreachable = serverVersion(config)
			}
			if err := v.print(c, output); err != nil {
				return err
			}
			if v.Server != nil {
				if err := v.compare(c); err != nil {
					return err
				}
			}
			return unreachable
		},
	}
	c.Flags().BoolVar(&clientOnly, "client", false, "If true, shows client version only (no server required).")
	c.Flags().StringVarP(&output, "output", "o", "", "One of 'yaml' or 'json'.")
	return c
}

func serverVersion(config *genericclioptions.ConfigFlags) (*version.Info, error) {
	d, err := config.ToDiscoveryClient()
	if err != nil {
		return nil, err
	}
	d.Invalidate()
	return d.ServerVersion()
}

func (v versions) print(c *cobra.Command, output string) (err error) {
	var text []byte
	switch output {
	case "yaml":
		text, err = yaml.Marshal(v)
	case "json":
		text, err = json.MarshalIndent(v, "", "  ")
	default:
		text = fmt.Appendf(nil, "Client Version: %s\nKustomize Version: %s", v.Client.GitVersion, v.Kustomize)
		if v.Server != nil {
			text = fmt.Appendf(text, "\nServer Version: %s", v.Server.GitVersion)
		}
	}
	if err == nil {
		_, err = fmt.Fprintln(c.OutOrStdout(), strings.TrimSuffix(string(text), "\n"))
	}
	return err
}

// compare warns if client and server are more than one minor version apart.
func (v versions) compare(c *cobra.Command) error {
	client, err := utilversion.ParseSemantic(v.Client.GitVersion)
	if err != nil {
		return fmt.Errorf("client version error: %w", err)
	}
	server, err := utilversion.ParseSemantic(v.Server.GitVersion)
	if err != nil {
		return fmt.Errorf("server version error: %w", err)
	}
	if client.Major() == server.Major() && math.Abs(float64(client.Minor())-float64(server.Minor())) <= 1 {
		return nil
	}
	warning := fmt.Sprintf("version difference between client (%d.%d) and server (%d.%d) exceeds the supported minor version skew of +/-1",
		client.Major(), client.Minor(), server.Major(), server.Minor())
	if f := c.Flag("warnings-as-errors"); f != nil && f.Value.String() == "true" {
		return errors.New(warning)
	}
	_, err = fmt.Fprintf(c.ErrOrStderr(), "Warning: %s\n", warning)
	return err
}
