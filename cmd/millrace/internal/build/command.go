package build

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// Command returns `millrace version`.
func Command() *cobra.Command {
	var format string
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Long: "Print the version of this program, what it was built from, and the version of Kubernetes whose API it serves.\n" +
			"`millrace kubectl version` prints those of a cluster.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return Read().Print(c.OutOrStdout(), format) },
	}
	c.Flags().StringVarP(&format, "output", "o", "", "json or yaml (default: lines of text)")
	return c
}

// Print writes the information as text, which an empty format means, as json or as yaml.
func (i Info) Print(out io.Writer, format string) error {
	var text []byte
	var err error
	switch format {
	case "":
		text = []byte(i.String())
	case "json":
		if text, err = json.MarshalIndent(i, "", "  "); err == nil {
			text = append(text, '\n')
		}
	case "yaml":
		text, err = yaml.Marshal(i)
	default:
		err = fmt.Errorf("--output %q is neither json nor yaml", format)
	}
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

// String returns the lines that people read.
func (i Info) String() string {
	changed := ""
	if i.Modified {
		changed = ", and changes"
	}
	return fmt.Sprintf("millrace    %s\ncommit      %s%s\ndate        %s\nKubernetes  %s\nGo          %s %s\n",
		i.Version, cmp.Or(i.Commit, "unknown"), changed, cmp.Or(i.Date, "unknown"), i.Kubernetes, i.Go, i.Platform)
}
