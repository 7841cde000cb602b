package h2

import (
	"context"

	"golang.org/x/net/http2"
)

// unknownStreams is how many requests may be open on a connection on which no request has been authenticated.
const unknownStreams = 100

// connKey is under which the context of a request has its connection.
type connKey struct{}

// Authenticated tells the connection of a request that the client has been authenticated: from then on the client may have
// Options.MaxStreams requests open. The context is the request's. Requests that were not served by this package are left alone.
func Authenticated(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*conn); ok && !c.known.Load() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.authenticatedLocked()
	}
}

// Unauthenticated tells the connection of a request that the client could not be authenticated, or is anonymous. Unless another request
// of the connection has been authenticated, the connection takes no more requests, and ends after those that are open: a client that
// nobody knows pays for each answer with a new connection. That is what kube-apiserver does.
func Unauthenticated(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.unauthenticatedLocked()
	}
}

func (c *conn) authenticatedLocked() {
	if c.known.Swap(true) || c.draining || c.err != nil {
		return
	}
	c.out.settings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: c.server.o.MaxStreams})
	c.flushLocked()
}

func (c *conn) unauthenticatedLocked() {
	if !c.known.Load() {
		c.drainLocked()
		return
	}
	if !c.nuisance.charge(refusalCharge) {
		c.drainLocked()
	}
}

// maxStreams is how many requests may be open.
func (c *conn) maxStreams() int {
	if c.known.Load() {
		return int(c.server.o.MaxStreams)
	}
	return min(unknownStreams, int(c.server.o.MaxStreams))
}

// mostGathered is how much the answers of the connection may have gathered before only short ones are.
func (c *conn) mostGathered() int64 {
	if c.known.Load() {
		return 1 << 20
	}
	return 256 << 10
}

// maxRequestMemory is how much the heads of the requests under way may take in memory, and the trailers that have come. One request
// may always have as much as Options.MaxHeader allows.
func (c *conn) maxRequestMemory() int {
	if c.known.Load() {
		return 8 * int(c.server.o.MaxHeader)
	}
	return int(c.server.o.MaxHeader)
}
