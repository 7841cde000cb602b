//go:build linux

package e2e

import (
	"flag"
	"os"
	"testing"
)

// together is how many stories go on at a time: they wait for containers, not for processors.
const together = "16"

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", together); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// TestRealCluster runs the program with real containers, as users do. The first stories go side by side, each in a
// namespace of its own; those that break things come after them.
func TestRealCluster(t *testing.T) {
	socket(t)
	c := newCluster(t)
	t.Run("together", func(t *testing.T) {
		for name, story := range map[string]func(*testing.T, *cluster){
			"streams": streams, "probes": probes, "hooks": hooks, "volumes": volumes, "security": security, "ends": ends, "images": images,
			"deployments": deployments, "ports": ports, "statics": statics, "resized": resized,
		} {
			t.Run(name, func(t *testing.T) { t.Parallel(); story(t, c) })
		}
	})
	t.Run("crowd", func(t *testing.T) { long(t); crowd(t, c) })
	t.Run("trouble", func(t *testing.T) { trouble(t, c) })
}
