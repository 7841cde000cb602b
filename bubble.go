package millrace

import (
	"bytes"
	"fmt"
	"runtime"
)

// insideBubble reports whether the caller runs in a testing/synctest bubble. The first line of a goroutine's stack shows it.
func insideBubble() bool {
	head := make([]byte, 128)
	line, _, _ := bytes.Cut(head[:runtime.Stack(head, false)], []byte("\n"))
	return bytes.Contains(line, []byte("synctest bubble"))
}

// checkBubble returns an error, in a testing/synctest bubble, for options that would wait for something outside: virtual time
// would never advance.
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
