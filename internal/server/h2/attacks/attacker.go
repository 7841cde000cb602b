package attacks

import (
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Attacker holds the connections of one attack.
type Attacker struct {
	address       string
	authenticated bool // each connection begins with an authenticated request
	// Refused counts the connections that the server ended or did not accept.
	Refused atomic.Int64

	mu    sync.Mutex
	conns []*Conn // guarded by mu
}

// Close closes all connections.
func (a *Attacker) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.conns {
		c.close()
	}
	a.conns = nil
}

// dialTimeout is how long connecting may take; frameTimeout is how long the server may take to read what is written.
const dialTimeout, frameTimeout = 5 * time.Second, 5 * time.Second

// tls connects and sends nothing of HTTP/2.
func (a *Attacker) tls() (*tls.Conn, error) {
	plain, err := net.DialTimeout("tcp", a.address, dialTimeout)
	if err != nil {
		return nil, err
	}
	// The server under attack runs on loopback, with a certificate made for the test.
	secure := tls.Client(plain, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	_ = secure.SetDeadline(time.Now().Add(dialTimeout))
	if err := secure.Handshake(); err != nil {
		plain.Close()
		return nil, err
	}
	_ = secure.SetDeadline(time.Time{})
	return secure, nil
}

// keep remembers a connection until Close.
func (a *Attacker) keep(c *Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.conns = append(a.conns, c)
}

// maxRedials is how often one worker connects again after the server has ended its connection.
const maxRedials = 50

// spread sends frames from several workers, each with its own connection, which reconnect when the server ends it.
// frame is called with the number of its calls so far on this connection.
func (a *Attacker) spread(conns, frames int, o Opening, frame func(c *Conn, i int)) {
	var workers sync.WaitGroup
	for range conns {
		workers.Go(func() {
			for sent, redials := 0, 0; sent < frames && redials < maxRedials; redials++ {
				c := a.open(o)
				if c == nil {
					continue
				}
				for i := 0; sent < frames && !c.over(); i++ {
					frame(c, i)
					sent++
				}
				c.flush()
				c.settle()
			}
		})
	}
	workers.Wait()
}
