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
	"github.com/millrace/millrace/cmd/millrace/internal/network"
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
	{"kube-proxy", registerProxy, flags.UnusedByProxy},
}

// registerProxy adds the flags of the command itself: it has no type of its own where there is no proxy.
func registerProxy(c *cobra.Command) { c.Flags().AddFlagSet(network.ProxyCommand().Flags()) }

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

// typesOf returns the flags of a program of Kubernetes 1.37.2 with the types that its --help names.
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
		"string": {good: "x"}, "ip": {good: "10.0.0.1"}, "strings": {good: "x,y"},
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
	for _, peer := range peers {
		if _, err := parse(t, peer.register, "--feature-gates=NoSuchGate=true"); err == nil || !strings.Contains(err.Error(), "unrecognized feature gate: NoSuchGate") {
			t.Errorf("%s: %v", peer.name, err)
		}
	}
}

func TestFeatureGatesThatAreNotFollowedAreNamed(t *testing.T) {
	g := &flags.Gates{}
	for _, text := range []string{"WatchList=true,APIServerIdentity=false", "CSIVolumeHealth=true"} {
		if err := g.Set(text); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	g.Warn(slog.New(slog.NewTextHandler(&out, nil)), "APIServerIdentity")
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `gates="CSIVolumeHealth=true"`) && !strings.Contains(got, "gates=CSIVolumeHealth=true") {
		t.Errorf("the log has %s", got)
	}
}

func TestFlagsWithoutWhichSomethingWouldBeLostAreRefused(t *testing.T) {
	for name, why := range flags.RefusedByServer {
		fl, err := apiserverFlagsOf(t, "--"+name+"=x")
		if err != nil {
			t.Fatal(err)
		}
		if err := flags.RefusedByServer.Check(fl); err == nil || err.Error() != "--"+name+": "+why {
			t.Errorf("--%s: %v", name, err)
		}
		fl, _ = apiserverFlagsOf(t, "--"+name+"=")
		if err := flags.RefusedByServer.Check(fl); err != nil {
			t.Errorf("without a value: %v", err)
		}
		if out, err := execute(t, "apiserver", "--data=memory", "--"+name+"=x"); err == nil || !strings.Contains(err.Error(), "--"+name+": ") {
			t.Errorf("the program starts with --%s: %s, %v", name, out, err)
		}
	}
}

func TestOneWarningNamesTheFlagsWithoutEffect(t *testing.T) {
	fl, err := apiserverFlagsOf(t, "--vmodule=a=1", "--peer-ca-file=x", "--secure-port=0", "--enable-bootstrap-token-auth")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	flags.UnusedByServer.Warn(fl, "kube-apiserver", slog.New(slog.NewTextHandler(&out, nil)))
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=WARN") || !strings.Contains(got, `flags="--enable-bootstrap-token-auth --peer-ca-file --vmodule"`) {
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
	if err != nil || !strings.Contains(help, "--secure-port") || strings.Contains(help, "--vmodule") {
		t.Errorf("%v: %s", err, help)
	}
}
