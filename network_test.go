package millrace_test

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// network is a way to a server that can be cut and led to another one.
type network struct {
	listener net.Listener
	target   atomic.Pointer[string]
	away     atomic.Bool // nobody gets through
	running  sync.WaitGroup

	mu    sync.Mutex // guards the rest
	ended bool
	pairs map[int]net.Conn
	next  int
}

func newNetwork(t testing.TB, target string) *network {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &network{listener: l, pairs: map[int]net.Conn{}}
	n.target.Store(&target)
	n.running.Go(n.accept)
	t.Cleanup(n.close)
	return n
}

func (n *network) address() string { return n.listener.Addr().String() }

// lead sends connections that begin from now on elsewhere.
func (n *network) lead(target string) { n.target.Store(&target) }

func (n *network) accept() {
	for {
		near, err := n.listener.Accept()
		if err != nil {
			return
		}
		n.running.Go(func() { n.carry(near) })
	}
}

// carry takes bytes to the other end and back, until one of them is gone or the connection is cut.
func (n *network) carry(near net.Conn) {
	defer near.Close()
	if n.away.Load() {
		return
	}
	far, err := net.Dial("tcp", *n.target.Load())
	if err != nil {
		return
	}
	defer far.Close()
	id, ok := n.enter(near)
	if !ok {
		return
	}
	defer n.leave(id)
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(near, far)
		near.Close()
		far.Close()
	})
	_, _ = io.Copy(far, near)
	far.Close()
	near.Close()
	back.Wait()
}

func (n *network) enter(c net.Conn) (int, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended {
		return 0, false
	}
	n.next++
	n.pairs[n.next] = c
	return n.next, true
}

func (n *network) leave(id int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.pairs, id)
}

// cut ends connections in the middle of what they carry: each for which hit says so.
func (n *network) cut(hit func() bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.pairs {
		if hit() {
			c.Close()
		}
	}
}

func (n *network) close() {
	n.listener.Close()
	n.mu.Lock()
	n.ended = true
	for _, c := range n.pairs {
		c.Close()
	}
	n.mu.Unlock()
	n.running.Wait()
}
