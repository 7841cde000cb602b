package e2e

import (
	"net"
	"path/filepath"
	"sync"
	"testing"
)

// relay stands between two ends of a socket, and can make them wait for each other, or part them.
type relay struct {
	listener net.Listener
	target   func() (net.Conn, error)
	running  sync.WaitGroup

	flow sync.RWMutex // held while nothing passes

	mu    sync.Mutex // guards what follows
	open  map[net.Conn]bool
	apart bool
}

// relayTo is a relay to a runtime's socket, with a socket of its own.
func relayTo(t *testing.T, path string) (*relay, string) {
	own := filepath.Join(t.TempDir(), "relay.sock")
	l, err := net.Listen("unix", own)
	if err != nil {
		t.Fatal(err)
	}
	return newRelay(t, l, func() (net.Conn, error) { return net.Dial("unix", path) }), own
}

func newRelay(t *testing.T, l net.Listener, target func() (net.Conn, error)) *relay {
	r := &relay{listener: l, target: target, open: map[net.Conn]bool{}}
	r.running.Go(r.run)
	t.Cleanup(func() {
		l.Close()
		r.part()
		r.running.Wait()
	})
	return r
}

func (r *relay) run() {
	for {
		near, err := r.listener.Accept()
		if err != nil {
			return
		}
		far, err := r.target()
		if err != nil || !r.keep(near, far) {
			near.Close()
			continue
		}
		r.running.Go(func() { r.copy(near, far) })
		r.running.Go(func() { r.copy(far, near) })
	}
}

// keep notes two ends of a connection, unless ends are to be apart.
func (r *relay) keep(near, far net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.apart {
		far.Close()
		return false
	}
	r.open[near], r.open[far] = true, true
	return true
}

func (r *relay) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		r.flow.RLock()
		_, err = to.Write(buffer[:n])
		r.flow.RUnlock()
		if err != nil {
			return
		}
	}
}

// stall lets nothing pass, until resume is called or the test ends.
func (r *relay) stall(t *testing.T) (resume func()) {
	r.flow.Lock()
	resume = sync.OnceFunc(r.flow.Unlock)
	t.Cleanup(resume)
	return resume
}

// part cuts all connections, and lets none be made before meet.
func (r *relay) part() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.apart = true
	for c := range r.open {
		c.Close()
	}
	clear(r.open)
}

func (r *relay) meet() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.apart = false
}
