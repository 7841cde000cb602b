package h2

import (
	"context"

	"golang.org/x/net/http2"
)

// unauthenticatedStreams is how many requests may be open on a connection on which no request has been authenticated.
const unauthenticatedStreams = 100

// connKey is the key under which the context of a request holds its connection.
type connKey struct{}

// Authenticated says that the client of a request has been authenticated: from then on its connection may have
// Options.MaxStreams requests open. ctx is the request's context. For requests of other servers it does nothing.
func Authenticated(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*conn); ok && !c.authenticated.Load() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.authenticatedLocked()
	}
}

// Unauthenticated says that the client of a request could not be authenticated, or is anonymous. Unless another request
// of the connection has been authenticated, the connection accepts no more requests and ends after those that are open.
// So an unauthenticated client pays for each answer with a new connection. kube-apiserver does the same.
func Unauthenticated(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.unauthenticatedLocked()
	}
}

func (c *conn) authenticatedLocked() {
	if c.authenticated.Swap(true) || c.draining || c.err != nil {
		return
	}
	c.out.settings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: c.server.o.MaxStreams})
	c.flushLocked()
}

func (c *conn) unauthenticatedLocked() {
	if !c.authenticated.Load() {
		c.drainLocked()
		return
	}
	if !c.nuisance.charge(refusalCharge) {
		c.drainLocked()
	}
}

// maxStreams is how many requests may be open.
func (c *conn) maxStreams() int {
	if c.authenticated.Load() {
		return int(c.server.o.MaxStreams)
	}
	return min(unauthenticatedStreams, int(c.server.o.MaxStreams))
}

// maxBuffered is how many bytes the answers of the connection may buffer together. Beyond that each may buffer only
// minBuffered.
func (c *conn) maxBuffered() int64 {
	if c.authenticated.Load() {
		return 1 << 20
	}
	return 64 << 10
}

// maxRequestMemory is how much memory the heads and trailers of the open requests may occupy. A single request may
// always have as much as Options.MaxHeader allows.
func (c *conn) maxRequestMemory() int {
	if c.authenticated.Load() {
		return 8 * int(c.server.o.MaxHeader)
	}
	return int(c.server.o.MaxHeader)
}
