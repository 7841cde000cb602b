package main

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/millrace/millrace/cmd/millrace/internal/apiserver"
	"github.com/millrace/millrace/cmd/millrace/internal/controllers"
	"github.com/millrace/millrace/cmd/millrace/internal/flags"
	"github.com/millrace/millrace/cmd/millrace/internal/kubelet"
	"github.com/millrace/millrace/cmd/millrace/internal/scheduler"
)

// peers are the programs of Kubernetes whose flags ours accept.
var peers = []struct {
	name     string
	register func(c *cobra.Command)
	unused   flags.Unused
}{
	{"kube-apiserver", func(c *cobra.Command) { (&apiserver.Flags{}).Register(c) }, flags.UnusedByServer},
	{"kube-controller-manager", func(c *cobra.Command) { (&controllers.Flags{}).Register(c) }, flags.UnusedByControllers},
	{"kube-scheduler", func(c *cobra.Command) { (&scheduler.Flags{}).Register(c) }, flags.UnusedByClients},
	{"kubelet", func(c *cobra.Command) { (&kubelet.Flags{}).RegisterAll(c) }, flags.UnusedByKubelet},
}

// parse returns the flags of a program after they have parsed a command line.
func parse(t *testing.T, register func(c *cobra.Command), args ...string) (*pflag.FlagSet, error) {
	t.Helper()
	c := &cobra.Command{}
	register(c)
	return c.Flags(), c.ParseFlags(args)
}

// apiserverFlagsOf returns the flags of `millrace apiserver` after they have parsed a command line.
func apiserverFlagsOf(t *testing.T, args ...string) (*pflag.FlagSet, error) {
	t.Helper()
	return parse(t, peers[0].register, args...)
}

// typesOf returns the flags of a program of Kubernetes 1.36.3 with the types that its --help names.
func typesOf(t *testing.T, program string) map[string]string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + program + ".flags")
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, kind, _ := strings.Cut(strings.TrimSpace(line), " ")
		types[name] = kind
	}
	delete(types, "help") // cobra adds it when the command runs
	return types
}

func TestEveryFlagOfKubernetesProgramsIsAcceptedByItsType(t *testing.T) {
	for _, peer := range peers {
		fl, _ := parse(t, peer.register)
		for name, kind := range typesOf(t, peer.name) {
			flag := fl.Lookup(name)
			if flag == nil {
				t.Errorf("--%s of %s is unknown", name, peer.name)
				continue
			}
			if optional := kind == "bool" || name == "version"; optional != (flag.NoOptDefVal != "") {
				t.Errorf("--%s of %s of the type %s: its value is optional: %v", name, peer.name, kind, !optional)
			}
		}
	}
}

func TestFlagsWithoutEffectHaveTheTypesOfKubernetes(t *testing.T) {
	values := map[string]struct{ good, bad string }{
		"bool": {"true", "maybe"}, "int": {"7", "many"}, "int32": {"7", "many"}, "int64": {"7", "many"}, "float32": {"0.5", "some"}, "duration": {"5s", "5"}, "quantity": {"4Ki", "big"},
		"stringToString": {"a=b", "a"}, "pattern=N,...": {"a=1,b*=2", "a"}, "colonSeparatedMultimapStringString": {"AllAlpha=true,kube:AllBeta=false", "AllAlpha"},
		"float":  {"0.5", "some"},
		"string": {good: "x"}, "strings": {good: "x,y"},
	}
	for _, peer := range peers {
		types := typesOf(t, peer.name)
		for _, some := range peer.unused {
			for _, name := range some.Names {
				value, known := values[types[name]]
				if !known {
					t.Errorf("--%s of %s has no type: %q", name, peer.name, types[name])
					continue
				}
				if _, err := parse(t, peer.register, "--"+name+"="+value.good); err != nil {
					t.Errorf("%s --%s=%s: %v", peer.name, name, value.good, err)
				}
				if value.bad == "" {
					continue
				}
				if _, err := parse(t, peer.register, "--"+name+"="+value.bad); err == nil {
					t.Errorf("%s --%s=%s was accepted", peer.name, name, value.bad)
				}
			}
		}
	}
}

func TestFeatureGatesNeedAKnownNameAndABool(t *testing.T) {
	for value, want := range map[string]string{
		"NoSuchGate=true": "unrecognized feature gate: NoSuchGate", "wardle:AllAlpha=true": "component not registered: wardle",
		"Some": "missing bool value for Some", "Some=x": `invalid value of Some=x, err: strconv.ParseBool: parsing "x": invalid syntax`,
	} {
		if _, err := apiserverFlagsOf(t, "--feature-gates="+value); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", value, err)
		}
	}
}

func TestOneWarningNamesTheFlagsWithoutEffect(t *testing.T) {
	fl, err := apiserverFlagsOf(t, "--vmodule=a=1", "--feature-gates=AllBeta=true", "--secure-port=0", "--enable-bootstrap-token-auth")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	flags.UnusedByServer.Warn(fl, "kube-apiserver", slog.New(slog.NewTextHandler(&out, nil)))
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=WARN") || !strings.Contains(got, `flags="--enable-bootstrap-token-auth --feature-gates --vmodule"`) {
		t.Errorf("the log has %s", got)
	}
	out.Reset()
	fl, _ = apiserverFlagsOf(t, "--secure-port=0")
	if flags.UnusedByServer.Warn(fl, "kube-apiserver", slog.New(slog.NewTextHandler(&out, nil))); out.Len() > 0 {
		t.Errorf("without such a flag the log has %s", out.String())
	}
}

func TestHelpDoesNotShowFlagsWithoutEffect(t *testing.T) {
	help, err := execute(t, "apiserver", "--help")
	if err != nil || !strings.Contains(help, "--secure-port") || strings.Contains(help, "--vmodule") || strings.Contains(help, "--feature-gates") {
		t.Errorf("%v: %s", err, help)
	}
}
