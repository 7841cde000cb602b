//go:build unix

package real_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

var wanted = flag.Bool("real", false, "build real extension API servers from their published modules, and test with them; the first time that takes minutes")

// program is a program of a published module.
type program struct{ pkg, version string }

var (
	sampleServer  = program{"k8s.io/sample-apiserver", "v0.37.2"}
	metricsServer = program{"sigs.k8s.io/metrics-server", "v0.9.0"}
)

// built returns the path of a program, which is built if it is not in the cache. Without -real the test is skipped.
func built(t *testing.T, p program, command string) string {
	t.Helper()
	if !*wanted {
		t.Skip("without -real nothing is built")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(p.pkg)
	directory := filepath.Join(cache, "millrace", "real", name+"-"+p.version)
	path := filepath.Join(directory, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Logf("building %s %s", p.pkg, p.version)
	c := exec.CommandContext(t.Context(), "go", "install", p.pkg+command+"@"+p.version)
	c.Dir, c.Env = directory, append(os.Environ(), "GOBIN="+directory)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}
