// Package network has a proxy between tests and a server that can cut, refuse and redirect connections, and a round
// tripper that does not wait between retries.
package network

import (
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy forwards connections to a server. They can be cut, and new ones can be refused, delayed or redirected to
// another server.
type Proxy struct {
	listener net.Listener
	target   atomic.Pointer[string]
	refusing atomic.Bool
	delay    atomic.Int64
	running  sync.WaitGroup

	mu    sync.Mutex // guards the rest
	ended bool
	pairs map[int]net.Conn
	next  int
}

// New starts a proxy to target, a host and port. It ends with the test.
func New(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, pairs: map[int]net.Conn{}}
	p.target.Store(&target)
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Address returns the proxy's address.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Redirect sends new connections to another server.
func (p *Proxy) Redirect(target string) { p.target.Store(&target) }

// Refuse sets whether new connections are closed at once.
func (p *Proxy) Refuse(yes bool) { p.refusing.Store(yes) }

// Delay has everything that the server says on new connections arrive late.
func (p *Proxy) Delay(by time.Duration) { p.delay.Store(int64(by)) }

func (p *Proxy) accept() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.forward(near) })
	}
}

// forward copies bytes in both directions, until one end closes or the connection is cut.
func (p *Proxy) forward(near net.Conn) {
	defer near.Close()
	if p.refusing.Load() {
		return
	}
	far, err := net.Dial("tcp", *p.target.Load())
	if err != nil {
		return
	}
	defer far.Close()
	id, ok := p.enter(near)
	if !ok {
		return
	}
	defer p.leave(id)
	var back sync.WaitGroup
	back.Go(func() {
		if by := time.Duration(p.delay.Load()); by > 0 {
			copyLate(near, far, by)
		} else {
			_, _ = io.Copy(near, far)
		}
		near.Close()
		far.Close()
	})
	_, _ = io.Copy(far, near)
	far.Close()
	near.Close()
	back.Wait()
}

// copyLate copies until an end closes. Each piece is passed on some time after it has arrived, however many others are
// on their way.
func copyLate(to io.Writer, from io.Reader, by time.Duration) {
	type piece struct {
		due   time.Time
		bytes []byte
	}
	pieces := make(chan piece, 1024)
	var writer sync.WaitGroup
	writer.Go(func() {
		for p := range pieces {
			time.Sleep(time.Until(p.due))
			_, _ = to.Write(p.bytes) // an end that has closed is noticed by the reader
		}
	})
	for {
		buffer := make([]byte, 32<<10)
		n, err := from.Read(buffer)
		if n > 0 {
			pieces <- piece{time.Now().Add(by), buffer[:n]}
		}
		if err != nil {
			break
		}
	}
	close(pieces)
	writer.Wait()
}

func (p *Proxy) enter(c net.Conn) (int, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return 0, false
	}
	p.next++
	p.pairs[p.next] = c
	return p.next, true
}

func (p *Proxy) leave(id int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pairs, id)
}

// Cut closes each open connection for which hit returns true, even in the middle of a message.
func (p *Proxy) Cut(hit func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.pairs {
		if hit() {
			c.Close()
		}
	}
}

func (p *Proxy) close() {
	p.listener.Close()
	p.mu.Lock()
	p.ended = true
	for _, c := range p.pairs {
		c.Close()
	}
	p.mu.Unlock()
	p.running.Wait()
}

// WithoutRetryAfter removes the header Retry-After: client-go would sleep for a second at each fault.
func WithoutRetryAfter(inner http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		res, err := inner.RoundTrip(r)
		if err == nil {
			res.Header.Del("Retry-After")
		}
		return res, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (rt roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return rt(r) }
