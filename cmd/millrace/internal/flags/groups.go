package flags

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Group is a part of a command's flags, for its help: those with certain names, and those whose names begin so.
type Group struct {
	Title           string
	Names, Prefixes []string
}

func (g Group) has(name string) bool {
	for _, own := range g.Names {
		if name == own {
			return true
		}
	}
	for _, prefix := range g.Prefixes {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// Grouped makes the help of a command list its flags in groups; a flag is in the first one that has it. The others come
// last.
func Grouped(c *cobra.Command, groups ...Group) {
	c.SetUsageFunc(func(c *cobra.Command) error {
		out := c.OutOrStderr()
		fmt.Fprintf(out, "Usage:\n  %s\n", c.UseLine())
		if c.Example != "" {
			fmt.Fprintf(out, "\nExamples:\n%s\n", c.Example)
		}
		sets := make([]*pflag.FlagSet, len(groups)+1)
		for i := range sets {
			sets[i] = pflag.NewFlagSet("", pflag.ContinueOnError)
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			at := 0
			for at < len(groups) && !groups[at].has(f.Name) {
				at++
			}
			sets[at].AddFlag(f)
		})
		for i, set := range sets {
			title := "Others"
			if i < len(groups) {
				title = groups[i].Title
			}
			if set.HasAvailableFlags() {
				fmt.Fprintf(out, "\n%s:\n%s", title, set.FlagUsages())
			}
		}
		return nil
	})
}
