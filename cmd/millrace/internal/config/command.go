package config

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	yaml "go.yaml.in/yaml/v3"
)

// Command returns `millrace config` for the flags of a command.
func Command(of *cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Print the settings of a cluster"}
	c.AddCommand(&cobra.Command{
		Use:   "print",
		Short: "Print all settings with their defaults, as a file for `millrace up --config`",
		Long: "Print all settings with their defaults, as a file for `millrace up --config`. A flag on the command line wins over\n" +
			"the environment (" + variable("listen") + " is --listen), and that over the file.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			text, err := defaults(of.Flags())
			if err != nil {
				return err
			}
			_, err = c.OutOrStdout().Write(text)
			return err
		},
	})
	return c
}

// defaults returns a file with every setting, each commented out below what it means.
func defaults(fl *pflag.FlagSet) ([]byte, error) {
	var out bytes.Buffer
	var failed error
	fl.VisitAll(func(f *pflag.Flag) {
		if !settable(f) || f.Name == name {
			return
		}
		_, usage := pflag.UnquoteUsage(f)
		value, err := yaml.Marshal(map[string]any{f.Name: value(f)})
		if err != nil {
			failed = err
			return
		}
		fmt.Fprintf(&out, "# %s\n", strings.ReplaceAll(usage, "\n", "\n# "))
		for line := range strings.Lines(string(value)) {
			fmt.Fprintf(&out, "#%s", line)
		}
		out.WriteString("\n")
	})
	return out.Bytes(), failed
}

// value returns a flag's default in the form in which a file has it.
func value(f *pflag.Flag) any {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle} // in one line
		for _, item := range list.GetSlice() {
			n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: item})
		}
		return n
	}
	switch text := f.DefValue; {
	case f.Value.Type() == "bool":
		return text == "true"
	case f.Value.Type() == "int", f.Value.Type() == "float64":
		return &yaml.Node{Kind: yaml.ScalarNode, Value: text}
	default:
		return text
	}
}
