package up

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/millrace/millrace/cmd/millrace/internal/config"
)

func TestARealNodeReplacesTheHollowOneUnlessBothAreWanted(t *testing.T) {
	f := &upFlags{runtime: "cri:unix:///run/x.sock", listen: "127.0.0.1:0", controllers: "*", nodes: 1, balancer: "none"}
	f.Data, f.ServiceRange = "memory", "10.96.0.0/16"
	for given, nodes := range map[bool]int{false: 0, true: 1} {
		if o, err := f.options(given, nil); err != nil || o.Runtime != "unix:///run/x.sock" || o.Nodes != nodes {
			t.Errorf("%+v, %v", o, err)
		}
	}
}

func TestThresholdsReachTheRealNodeOfUp(t *testing.T) {
	f := &upFlags{runtime: "cri:unix:///run/x.sock", listen: "127.0.0.1:0", controllers: "*", balancer: "none", eviction: []string{"nodefs.available<1Gi"}}
	f.Data, f.ServiceRange = "memory", "10.96.0.0/16"
	if o, err := f.options(false, nil); err != nil || !maps.Equal(o.Eviction, map[string]string{"nodefs.available": "1Gi"}) {
		t.Errorf("%v, %v", o.Eviction, err)
	}
	f.eviction = []string{"nodefs.available=1Gi"}
	if _, err := f.options(false, nil); err == nil {
		t.Error("what is no threshold is taken")
	}
}

// TestTheFileThatConfigPrintsIsOneOfUp removes the comment signs of the settings, and reads the file.
func TestTheFileThatConfigPrintsIsOneOfUp(t *testing.T) {
	up := Command()
	printing := config.Command(up)
	var out strings.Builder
	printing.SetOut(&out)
	printing.SetArgs([]string{"print"})
	if err := printing.Execute(); err != nil {
		t.Fatal(err)
	}
	var active strings.Builder
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, "# ") {
			active.WriteString(strings.TrimPrefix(line, "#"))
		}
	}
	path := filepath.Join(t.TempDir(), "millrace.yaml")
	if err := os.WriteFile(path, []byte(active.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	read := Command()
	if err := read.ParseFlags([]string{"--config", path}); err != nil {
		t.Fatal(err)
	}
	if err := config.Read(read.Flags(), func(string) (string, bool) { return "", false }); err != nil {
		t.Fatal(err)
	}
	read.Flags().VisitAll(func(f *pflag.Flag) {
		if was := up.Flags().Lookup(f.Name); f.Name != "config" && f.Value.String() != was.Value.String() {
			t.Errorf("--%s is %s, and was %s", f.Name, f.Value, was.Value)
		}
	})
}
