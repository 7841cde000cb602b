// Package config sets flags of a command from a file and from the environment.
//
// A flag on the command line wins over the environment, and that over the file. The file is YAML: the names of flags
// without their dashes, and their values. The variable of a flag is its name in capitals, with underscores, behind
// MILLRACE_: that of --listen is MILLRACE_LISTEN.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"
	yaml "go.yaml.in/yaml/v3"

	"github.com/millrace/millrace/cmd/millrace/internal/flags"
)

// name is the flag that names the file; the file cannot have it.
const name = "config"

// Add adds the flag --config.
func Add(fl *pflag.FlagSet) {
	fl.String(name, "", "YAML file with flags and their values; `millrace config print` shows one with all of them")
}

// Read sets what the command line leaves open from the environment and from the file that --config names. A variable
// without a value sets nothing.
func Read(fl *pflag.FlagSet, environment func(string) (string, bool)) error {
	given := map[string]bool{}
	fl.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	var failed []error
	fl.VisitAll(func(f *pflag.Flag) {
		value, ok := environment(variable(f.Name))
		if !ok || value == "" || given[f.Name] || !settable(f) {
			return
		}
		given[f.Name] = true
		if err := fl.Set(f.Name, value); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", variable(f.Name), flags.Invalid(err)))
		}
	})
	if path := fl.Lookup(name).Value.String(); path != "" {
		failed = append(failed, readFile(fl, path, given))
	}
	return errors.Join(failed...)
}

func variable(flag string) string {
	return "MILLRACE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// settable reports whether a flag says something about the cluster.
func settable(f *pflag.Flag) bool { return f.Name != "help" && !f.Hidden }

func readFile(fl *pflag.FlagSet, path string, given map[string]bool) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("--%s: %w", name, err)
	}
	var document yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil // only comments
	} else if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	top := document.Content[0]
	switch {
	case top.Kind == yaml.ScalarNode && top.Tag == "!!null":
		return nil
	case top.Kind != yaml.MappingNode:
		return fmt.Errorf("%s:%d: write one setting a line, as in \"listen: 127.0.0.1:6443\"", path, top.Line)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s has more than one document", path)
	}
	f := file{flags: fl, path: path, given: given, lines: map[string]int{}}
	var failed []error
	for i := 0; i+1 < len(top.Content); i += 2 {
		failed = append(failed, f.set(top.Content[i], top.Content[i+1]))
	}
	return errors.Join(failed...)
}

// file is a file that is read.
type file struct {
	flags *pflag.FlagSet
	path  string
	given map[string]bool // by the command line or the environment
	lines map[string]int  // where a setting was first
}

// set sets one flag, unless the command line or the environment has.
func (f file) set(key, value *yaml.Node) error {
	flag := f.flags.Lookup(key.Value)
	switch {
	case flag == nil || !settable(flag) || flag.Name == name:
		return f.mistake(key, "there is no setting %q%s", key.Value, hint(f.flags, key.Value))
	case f.lines[key.Value] > 0:
		return f.mistake(key, "%s is set in line %d already", key.Value, f.lines[key.Value])
	}
	f.lines[key.Value] = key.Line
	text, err := written(value)
	if err != nil {
		return f.mistake(value, "%s: %w", key.Value, err)
	}
	if f.given[key.Value] {
		return nil
	}
	if list, ok := flag.Value.(pflag.SliceValue); ok {
		if err := list.Replace(text); err != nil {
			return f.mistake(value, "%s: %w", key.Value, err)
		}
		flag.Changed = true
		return nil
	}
	if value.Kind != yaml.ScalarNode {
		return f.mistake(value, "%s has one value, not a list", key.Value)
	}
	if err := f.flags.Set(key.Value, value.Value); err != nil {
		return f.mistake(value, "%w", flags.Invalid(err))
	}
	return nil
}

func (f file) mistake(at *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("%s:%d: "+format, append([]any{f.path, at.Line}, args...)...)
}

// written returns the values that a node has: one, or those of a list.
func written(n *yaml.Node) ([]string, error) {
	if n.Kind == yaml.ScalarNode {
		return []string{n.Value}, nil
	}
	if n.Kind != yaml.SequenceNode {
		return nil, errors.New("a setting has a text, a number, or a list of them")
	}
	out := make([]string, 0, len(n.Content))
	for _, item := range n.Content {
		if item.Kind != yaml.ScalarNode {
			return nil, errors.New("a value in a list is a text or a number")
		}
		out = append(out, item.Value)
	}
	return out, nil
}

// hint names the flag that somebody may have meant.
func hint(fl *pflag.FlagSet, text string) string {
	if found := flags.Closest(fl, text); found != "" && found != name && found != "help" {
		return fmt.Sprintf(": did you mean %s?", found)
	}
	return ": see millrace config print"
}
