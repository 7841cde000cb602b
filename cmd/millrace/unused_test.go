package main

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// apiserverFlagsOf returns the flags of `millrace apiserver` after they have parsed a command line.
func apiserverFlagsOf(t *testing.T, args ...string) (*pflag.FlagSet, error) {
	t.Helper()
	f, c := &apiserverFlags{}, &cobra.Command{}
	f.register(c)
	return c.Flags(), c.ParseFlags(args)
}

// testdata/kube-apiserver.flags has the flags of kube-apiserver 1.36.3 with the types that its --help names.
func TestEveryFlagOfKubeAPIServerIsAcceptedByItsType(t *testing.T) {
	text, err := os.ReadFile("testdata/kube-apiserver.flags")
	if err != nil {
		t.Fatal(err)
	}
	fl, _ := apiserverFlagsOf(t)
	fl.BoolP("help", "h", false, "") // cobra adds it when the command runs
	for line := range strings.Lines(string(text)) {
		name, kind, _ := strings.Cut(strings.TrimSpace(line), " ")
		flag := fl.Lookup(name)
		if flag == nil {
			t.Errorf("--%s is unknown", name)
			continue
		}
		if optional := kind == "bool" || name == "version"; optional != (flag.NoOptDefVal != "") {
			t.Errorf("--%s of the type %s: its value is optional: %v", name, kind, !optional)
		}
	}
}

func TestFlagsWithoutEffectHaveTheTypesOfKubeAPIServer(t *testing.T) {
	values := map[string]struct{ good, bad string }{
		"bool": {"true", "maybe"}, "int": {"7", "many"}, "float32": {"0.5", "some"}, "duration": {"5s", "5"}, "quantity": {"4Ki", "big"},
		"stringToString": {"a=b", "a"}, "pattern=N,...": {"a=1,b*=2", "a"}, "colonSeparatedMultimapStringString": {"A=true,kube:B=false", "A"},
		"float":  {"0.5", "some"},
		"string": {good: "x"}, "strings": {good: "x,y"},
	}
	text, err := os.ReadFile("testdata/kube-apiserver.flags")
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, kind, _ := strings.Cut(strings.TrimSpace(line), " ")
		types[name] = kind
	}
	for _, group := range unusedFlags {
		for _, name := range group.names {
			value, known := values[types[name]]
			if !known {
				t.Errorf("--%s has no type: %q", name, types[name])
				continue
			}
			if _, err := apiserverFlagsOf(t, "--"+name+"="+value.good); err != nil {
				t.Errorf("--%s=%s: %v", name, value.good, err)
			}
			if value.bad == "" {
				continue
			}
			if _, err := apiserverFlagsOf(t, "--"+name+"="+value.bad); err == nil {
				t.Errorf("--%s=%s was accepted", name, value.bad)
			}
		}
	}
}

func TestFeatureGatesNeedABool(t *testing.T) {
	for value, want := range map[string]string{
		"Some": "missing bool value for Some", "Some=x": `invalid value of Some=x, err: strconv.ParseBool: parsing "x": invalid syntax`,
	} {
		if _, err := apiserverFlagsOf(t, "--feature-gates="+value); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", value, err)
		}
	}
}

func TestOneWarningNamesTheFlagsWithoutEffect(t *testing.T) {
	fl, err := apiserverFlagsOf(t, "--vmodule=a=1", "--feature-gates=Some=true", "--secure-port=0", "--enable-bootstrap-token-auth")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	warnOfUnused(fl, slog.New(slog.NewTextHandler(&out, nil)))
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=WARN") || !strings.Contains(got, `flags="--enable-bootstrap-token-auth --feature-gates --vmodule"`) {
		t.Errorf("the log has %s", got)
	}
	out.Reset()
	fl, _ = apiserverFlagsOf(t, "--secure-port=0")
	if warnOfUnused(fl, slog.New(slog.NewTextHandler(&out, nil))); out.Len() > 0 {
		t.Errorf("without such a flag the log has %s", out.String())
	}
}

func TestHelpDoesNotShowFlagsWithoutEffect(t *testing.T) {
	help, err := execute(t, "apiserver", "--help")
	if err != nil || !strings.Contains(help, "--secure-port") || strings.Contains(help, "--vmodule") || strings.Contains(help, "--feature-gates") {
		t.Errorf("%v: %s", err, help)
	}
}
