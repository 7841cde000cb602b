package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/server/services"
)

const (
	// mostTransports bounds for how many pairs of authorities and names connections are kept. Each keeps its
	// authorities in memory.
	mostTransports = 256
	idleTimeout    = 90 * time.Second
	// A server that goes away without a word is noticed after these.
	pingAfter, pingTimeout = 30 * time.Second, 15 * time.Second
	handshakeTimeout       = 10 * time.Second
	dialTimeout            = 30 * time.Second
	idleForHost            = 25
)

// transport keeps the connections of calls that trust the same authorities for the same name.
type transport struct {
	*http.Transport
	used int64 // guarded by the client's mutex
}

// ErrBundle says that the authorities that are to be trusted cannot be read.
var ErrBundle = errors.New("unable to load root certificates: unable to parse bytes as PEM block")

// transport finds or makes the transport for a target.
func (c *Client) transport(t *Target) (*transport, error) {
	k := t.trust()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.uses++
	if found := c.transports[k]; found != nil {
		found.used = c.uses
		return found, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: k.serverName}
	if k.user != nil {
		config.GetClientCertificate = k.user.certificate
	}
	if len(t.CABundle) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(t.CABundle) {
			return nil, ErrBundle
		}
	}
	made := &transport{used: c.uses, Transport: &http.Transport{
		DialContext: c.connect, TLSClientConfig: config, ForceAttemptHTTP2: true, TLSHandshakeTimeout: handshakeTimeout,
		IdleConnTimeout: idleTimeout, MaxIdleConnsPerHost: idleForHost, MaxResponseHeaderBytes: 1 << 20,
		HTTP2: &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}}
	if len(c.transports) >= mostTransports {
		c.forgetLocked()
	}
	c.transports[k] = made
	return made, nil
}

// forgetLocked forgets the transport that was not used for the longest time. What it has under way goes on.
func (c *Client) forgetLocked() {
	var oldest trust
	var found *transport
	for k, t := range c.transports {
		if found == nil || t.used < found.used {
			oldest, found = k, t
		}
	}
	delete(c.transports, oldest)
	found.CloseIdleConnections()
}

// connect opens a connection that the client knows of. It may outlive the request for which it was opened.
func (c *Client) connect(ctx context.Context, network, address string) (net.Conn, error) {
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.calls.Done()
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	opened, err := c.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	n := &conn{Conn: opened, of: c}
	c.mu.Lock()
	c.open[n] = struct{}{}
	c.mu.Unlock()
	return n, nil
}

// conn is a connection that its client closes if nobody else does.
type conn struct {
	net.Conn
	of   *Client
	once sync.Once
}

func (n *conn) Close() error {
	n.once.Do(func() {
		n.of.mu.Lock()
		delete(n.of.open, n)
		n.of.mu.Unlock()
	})
	return n.Conn.Close()
}

// byEndpoint sends requests for a service to one of its endpoints. Each endpoint has connections of its own, so that
// requests spread although HTTP/2 needs one connection only.
type byEndpoint struct {
	through  *transport
	services *services.Resolver
	service  *Service
}

// mostAttempts is to how many endpoints a connection is tried.
const mostAttempts = 3

func (b *byEndpoint) RoundTrip(r *http.Request) (answer *http.Response, err error) {
	addresses, err := b.services.Resolve(r.Context(), b.service.at())
	if err != nil {
		return nil, err
	}
	for i, address := range addresses[:min(len(addresses), mostAttempts)] {
		sent := r.Clone(r.Context())
		sent.URL.Host, sent.Host = address, r.URL.Host
		if i > 0 {
			if sent.Body, err = r.GetBody(); err != nil {
				return nil, err
			}
		}
		answer, err = b.through.RoundTrip(sent)
		var failed *net.OpError
		if !errors.As(err, &failed) || failed.Op != "dial" || r.Context().Err() != nil {
			return answer, err
		}
	}
	return nil, err
}
