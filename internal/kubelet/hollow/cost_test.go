package hollow

import (
	"runtime"
	"testing"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/millrace/millrace/loop"
)

// maxPerNode is the limit for the memory of a hollow node, in bytes.
const maxPerNode = 50 << 10

func TestAHollowNodeIsCheap(t *testing.T) {
	const count = 5000
	before := heap()
	n, err := New(Options{Clients: loop.ClientsFor(fake.NewClientset()), Nodes: count})
	if err != nil {
		t.Fatal(err)
	}
	for i := range count { // as if each node ran a pod
		if _, err := n.runtime.addresses.take(n.facts(i).Name); err != nil {
			t.Fatal(err)
		}
	}
	if each := (heap() - before) / count; each > maxPerNode {
		t.Errorf("a node takes %d bytes", each)
	} else {
		t.Logf("a node takes %d bytes", each)
	}
	runtime.KeepAlive(n)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
