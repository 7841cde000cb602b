package millrace

import (
	"bytes"
	"fmt"
	"runtime"
)

// insideBubble tells whether the caller runs in a bubble of testing/synctest. The head of a goroutine's stack says so.
func insideBubble() bool {
	head := make([]byte, 128)
	line, _, _ := bytes.Cut(head[:runtime.Stack(head, false)], []byte("\n"))
	return bytes.Contains(line, []byte("synctest bubble"))
}

// checkBubble refuses, in a bubble of testing/synctest, what would wait for the world outside it: time would stand still for ever.
func (o *Options) checkBubble() error {
	for _, part := range []struct {
		set bool
		why string
	}{
		{o.Listen != noPort, `a port of this machine; set Options.Listen to "none", and use Config() or InProcess()`},
		{len(o.Etcd.Servers) > 0, "an etcd cluster; leave out Options.Etcd, and the objects are kept in memory"},
		{o.Data != "", "the embedded etcd, which writes to a disk; leave out Options.Data, and the objects are kept in memory"},
		{o.Runtime != "", "a container runtime; leave out Options.Runtime, and use hollow nodes (Options.Nodes)"},
	} {
		if part.set && insideBubble() {
			return fmt.Errorf("inside a bubble of testing/synctest, where time is virtual, there cannot be %s", part.why)
		}
	}
	return nil
}
