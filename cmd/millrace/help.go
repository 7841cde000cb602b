package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// helpCommand is `millrace help`. Cobra's own ends well for commands that are not there.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Help about any command",
		RunE: func(c *cobra.Command, args []string) error {
			found, rest, err := c.Root().Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 && found.HasSubCommands() {
				return unknown(found, rest[0])
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

// refuseUnknown makes commands that only have others below them refuse what is none of these. They print their help
// without a word otherwise, and end well.
func refuseUnknown(c *cobra.Command) {
	for _, below := range c.Commands() {
		refuseUnknown(below)
	}
	if !c.HasSubCommands() || c.Runnable() {
		return
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknown(c, args[0])
		}
		return c.Help()
	}
}

func unknown(c *cobra.Command, name string) error {
	c.SuggestionsMinimumDistance = 2
	err := fmt.Errorf("unknown command %q for %q", name, c.CommandPath())
	if all := c.SuggestionsFor(name); len(all) > 0 {
		return fmt.Errorf("%w: did you mean %s?", err, all[0])
	}
	return fmt.Errorf("%w: see %s --help", err, c.CommandPath())
}
