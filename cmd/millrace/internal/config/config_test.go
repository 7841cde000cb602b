package config

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// settings are some flags.
type settings struct {
	listen string
	nodes  int
	hosts  []string
	age    time.Duration
	quiet  bool
}

func command() (*settings, *pflag.FlagSet) {
	s, fl := &settings{}, pflag.NewFlagSet("up", pflag.ContinueOnError)
	fl.StringVar(&s.listen, "listen", "127.0.0.1:6443", "address of the API")
	fl.IntVar(&s.nodes, "nodes", 1, "number of nodes")
	fl.StringSliceVar(&s.hosts, "tls-sans", []string{"one"}, "names")
	fl.DurationVar(&s.age, "history", time.Hour, "how long")
	fl.BoolVar(&s.quiet, "quiet", false, "say nothing")
	Add(fl)
	return s, fl
}

func onDisk(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "millrace.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func none(string) (string, bool) { return "", false }

func TestFlagsWinOverTheEnvironmentAndThatOverTheFile(t *testing.T) {
	s, fl := command()
	path := onDisk(t, "listen: file:1\nnodes: 3\nhistory: 2h\ntls-sans: [a, \"b,c\"]\nquiet: true\n")
	if err := fl.Parse([]string{"--listen=flag:1", "--config", path}); err != nil {
		t.Fatal(err)
	}
	environment := map[string]string{"MILLRACE_LISTEN": "environment:1", "MILLRACE_NODES": "2"}
	if err := Read(fl, func(name string) (string, bool) { v, ok := environment[name]; return v, ok }); err != nil {
		t.Fatal(err)
	}
	if s.listen != "flag:1" || s.nodes != 2 || s.age != 2*time.Hour || strings.Join(s.hosts, "|") != "a|b,c" || !s.quiet {
		t.Errorf("%+v", s)
	}
	for _, name := range []string{"listen", "nodes", "history", "tls-sans", "quiet"} {
		if !fl.Changed(name) {
			t.Errorf("%s counts as not given", name)
		}
	}
}

func TestAMistakeInTheFileHasItsLineAndAHint(t *testing.T) {
	for text, want := range map[string]string{
		"nodes: 1\nlisten_: x\n":    `:2: there is no setting "listen_": did you mean listen?`,
		"node: 1\n":                 `:1: there is no setting "node": did you mean nodes?`,
		"somethingElse: 1\n":        `:1: there is no setting "somethingElse": see millrace config print`,
		"config: x\n":               `:1: there is no setting "config"`,
		"# first\n\nnodes: many\n":  `:3: invalid argument "many" for "--nodes" flag: not a whole number`,
		"nodes: 1\nnodes: 2\n":      `:2: nodes is set in line 1 already`,
		"nodes: {a: b}\n":           `:1: nodes: a setting has a text, a number, or a list of them`,
		"tls-sans: [a, [b]]\n":      `:1: tls-sans: a value in a list is a text or a number`,
		"nodes: [1, 2]\n":           `:1: nodes has one value, not a list`,
		"- nodes\n":                 `:1: write one setting a line`,
		"nodes: 1\n---\nnodes: 2\n": `has more than one document`,
		"nodes: [1\n":               `line 1`,
	} {
		_, fl := command()
		if err := fl.Parse([]string{"--config", onDisk(t, text)}); err != nil {
			t.Fatal(err)
		}
		if err := Read(fl, none); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	_, fl := command()
	if err := fl.Parse([]string{"--config=/nowhere"}); err != nil {
		t.Fatal(err)
	}
	if err := Read(fl, none); err == nil || !strings.Contains(err.Error(), "--config: open /nowhere") {
		t.Error(err)
	}
}

func TestAVariableWithoutAValueSetsNothing(t *testing.T) {
	s, fl := command()
	if err := Read(fl, func(string) (string, bool) { return "", true }); err != nil || s.listen != "127.0.0.1:6443" || fl.Changed("listen") {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestAWrongVariableIsNamed(t *testing.T) {
	_, fl := command()
	err := Read(fl, func(name string) (string, bool) { return "x", name == "MILLRACE_NODES" })
	if err == nil || !strings.Contains(err.Error(), "MILLRACE_NODES: ") {
		t.Error(err)
	}
}

// TestWhatIsPrintedIsAFileThatChangesNothing removes the comment signs of the settings, and reads the file.
func TestWhatIsPrintedIsAFileThatChangesNothing(t *testing.T) {
	s, fl := command()
	of := &cobra.Command{Use: "up"}
	of.Flags().AddFlagSet(fl)
	c := Command(of)
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetArgs([]string{"print"})
	if err := c.Execute(); err != nil {
		t.Fatal(err)
	}
	var active strings.Builder
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, "# ") {
			active.WriteString(strings.TrimPrefix(line, "#"))
		}
	}
	if err := fl.Parse([]string{"--config", onDisk(t, active.String())}); err != nil {
		t.Fatal(err)
	}
	if err := Read(fl, none); err != nil {
		t.Fatalf("%v\n%s", err, active.String())
	}
	if s.listen != "127.0.0.1:6443" || s.nodes != 1 || strings.Join(s.hosts, "|") != "one" || s.age != time.Hour || s.quiet {
		t.Errorf("%+v\n%s", s, active.String())
	}
	_, empty := command()
	if err := empty.Parse([]string{"--config", onDisk(t, out.String())}); err != nil {
		t.Fatal(err)
	}
	if err := Read(empty, none); err != nil || empty.Changed("listen") {
		t.Errorf("comments set something: %v", err)
	}
}
