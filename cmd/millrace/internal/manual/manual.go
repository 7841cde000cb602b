// Package manual writes the manual pages of all commands, in the language of man(7), from what their --help says.
package manual

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/millrace/millrace/cmd/millrace/internal/build"
)

// Command returns `millrace man`, which packages are made with; --help does not list it.
func Command() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIRECTORY",
		Short:  "Write the manual pages of all commands into a directory",
		Args:   cobra.ExactArgs(1),
		Hidden: true,
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			return write(c.Root(), args[0])
		},
	}
}

// write writes the page of a command and those of the commands below it.
func write(c *cobra.Command, directory string) error {
	c.InitDefaultHelpFlag()
	if err := os.WriteFile(filepath.Join(directory, name(c)+".1"), page(c), 0o644); err != nil {
		return err
	}
	for _, below := range c.Commands() {
		if !below.IsAvailableCommand() || below.IsAdditionalHelpTopicCommand() {
			continue
		}
		if err := write(below, directory); err != nil {
			return err
		}
	}
	return nil
}

// name returns the name of a command's page.
func name(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// page returns the page of a command.
func page(c *cobra.Command) []byte {
	var out bytes.Buffer
	i := build.Read()
	day, _, _ := strings.Cut(i.Date, "T")
	fmt.Fprintf(&out, ".TH %s 1 %s %s %s\n", quoted(strings.ToUpper(name(c))), quoted(day), quoted("millrace "+i.Version), quoted("Millrace"))
	fmt.Fprintf(&out, ".SH NAME\n%s \\- %s\n", literal(name(c)), literal(c.Short))
	section(&out, "SYNOPSIS", c.UseLine())
	if text := strings.TrimSpace(c.Long); text != "" {
		section(&out, "DESCRIPTION", text)
	}
	if c.Example != "" {
		section(&out, "EXAMPLES", c.Example)
	}
	flags(&out, "OPTIONS", c.NonInheritedFlags())
	flags(&out, "OPTIONS OF ALL COMMANDS", c.InheritedFlags())
	seeAlso(&out, c)
	return out.Bytes()
}

// section writes a section whose lines are kept as they are.
func section(out *bytes.Buffer, title, text string) {
	fmt.Fprintf(out, ".SH %s\n.nf\n", title)
	for line := range strings.Lines(text) {
		fmt.Fprintf(out, "%s\n", literal(strings.TrimRight(line, "\n")))
	}
	out.WriteString(".fi\n")
}

func flags(out *bytes.Buffer, title string, set *pflag.FlagSet) {
	if !set.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(out, ".SH %s\n", title)
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		tag := "--" + f.Name
		if f.Shorthand != "" {
			tag = "-" + f.Shorthand + ", " + tag
		}
		if value != "" {
			tag += " " + value
		}
		if !zero(f.DefValue) {
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(out, ".TP\n.B %s\n%s\n", literal(tag), literal(strings.ReplaceAll(usage, "\n", " ")))
	})
}

// zero reports whether a default is the one that everybody expects.
func zero(value string) bool {
	switch value {
	case "", "0", "0s", "false", "[]", "<nil>":
		return true
	}
	return false
}

// seeAlso names the pages of the command above and of those below.
func seeAlso(out *bytes.Buffer, c *cobra.Command) {
	var pages []string
	if c.HasParent() {
		pages = append(pages, name(c.Parent()))
	}
	for _, below := range c.Commands() {
		if below.IsAvailableCommand() {
			pages = append(pages, name(below))
		}
	}
	if len(pages) == 0 {
		return
	}
	out.WriteString(".SH SEE ALSO\n")
	for i, p := range pages {
		end := ","
		if i == len(pages)-1 {
			end = ""
		}
		fmt.Fprintf(out, ".BR %s (1)%s\n", literal(p), end)
	}
}

// literal returns text that man(7) prints as it is: a backslash begins an escape, a hyphen is a dash, and a line that
// begins with a dot or a quote is a request.
func literal(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}

// quoted returns an argument of a request.
func quoted(text string) string { return `"` + strings.ReplaceAll(literal(text), `"`, `\(dq`) + `"` }
