//go:build linux

package e2e

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// rootDirectory returns a directory for a kubelet. Pods that run to the test's end have their secrets in memory there:
// when the test has ended, it is unmounted, so that the directory can be removed.
func rootDirectory(t *testing.T) string {
	directory := t.TempDir()
	t.Cleanup(func() {
		text, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Error(err)
		}
		var all []string
		for line := range strings.Lines(string(text)) {
			if words := strings.Fields(line); len(words) > 4 && strings.HasPrefix(words[4], directory+"/") {
				all = append(all, words[4])
			}
		}
		slices.Reverse(all) // what was mounted last is in what was mounted before
		for _, path := range all {
			if err := syscall.Unmount(path, syscall.MNT_DETACH); err != nil {
				t.Errorf("unmount %s: %v", path, err)
			}
		}
	})
	return directory
}
