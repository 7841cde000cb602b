package millrace_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace"
)

// In virtual time, anything that waits for the world outside would block for ever, so it is refused with a clear error.
func TestOptionsThatCannotWorkInVirtualTimeAreRefused(t *testing.T) {
	for word, o := range map[string]millrace.Options{
		"a port":              {},
		"an etcd cluster":     {Listen: "none", Etcd: millrace.EtcdOptions{Servers: []string{"http://127.0.0.1:1"}}},
		"a data directory":    {Listen: "none", Data: "directory"},
		"a container runtime": {Listen: "none", Runtime: "unix:///run/nobody.sock"},
	} {
		synctest.Test(t, func(t *testing.T) {
			cluster, err := millrace.Start(t.Context(), o)
			if err == nil || !strings.Contains(err.Error(), word) || !strings.Contains(err.Error(), "synctest") {
				t.Errorf("%s: %v", word, err)
			}
			if err == nil {
				cluster.Close()
			}
		})
	}
}
