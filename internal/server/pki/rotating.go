package pki

import (
	"context"
	"crypto/tls"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// rotateEvery is how often certificates are checked.
const rotateEvery = 6 * time.Hour

// Rotating holds keys whose certificates are renewed before they expire. The authority and the signing key are not.
type Rotating struct {
	storage storage
	hosts   []string
	log     *slog.Logger
	current atomic.Pointer[Keys]

	mu      sync.Mutex // guards clients
	clients []*Client
}

// Client is a client certificate that is renewed before it expires. It is kept in memory only.
type Client struct {
	name    string
	groups  []string
	current atomic.Pointer[tls.Certificate]
}

// Certificate returns the current certificate.
func (c *Client) Certificate() *tls.Certificate { return c.current.Load() }

// OpenRotating opens the keys of a directory, as Open does. They are renewed while Run runs.
func OpenRotating(directory string, hosts []string, log *slog.Logger) (*Rotating, error) {
	s, err := openStorage(directory)
	if err != nil {
		return nil, err
	}
	k, err := open(s, hosts, time.Now())
	if err != nil {
		return nil, err
	}
	r := &Rotating{storage: s, hosts: hosts, log: log}
	r.current.Store(k)
	return r, nil
}

// Keys returns the current keys.
func (r *Rotating) Keys() *Keys { return r.current.Load() }

// Serving returns the server's current certificate.
func (r *Rotating) Serving() *tls.Certificate { return r.Keys().Serving.TLS() }

// Proxy returns the front proxy's current certificate.
func (r *Rotating) Proxy() *tls.Certificate { return r.Keys().Proxy.TLS() }

// Client makes a client certificate that Run renews.
func (r *Rotating) Client(name string, groups []string) (*Client, error) {
	c := &Client{name: name, groups: groups}
	if err := c.issue(r.Keys(), time.Now()); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clients = append(r.clients, c)
	return c, nil
}

func (c *Client) issue(k *Keys, now time.Time) error {
	p, err := k.Client(c.name, c.groups, now)
	if err == nil {
		c.current.Store(p.TLS())
	}
	return err
}

// Run renews certificates that are about to expire, until ctx ends.
func (r *Rotating) Run(ctx context.Context) error {
	tick := time.NewTicker(rotateEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			r.rotate(time.Now())
		}
	}
}

// rotate replaces the keys if there are new ones: because some had to be renewed, or because the files have changed.
func (r *Rotating) rotate(now time.Time) {
	next, err := open(r.storage, r.hosts, now)
	if err != nil {
		r.log.Error("certificates cannot be renewed", "error", err, "expires", r.Keys().Serving.Certificate.NotAfter)
		return
	}
	old := r.Keys()
	if !next.Authority.Certificate.Equal(old.Authority.Certificate) {
		r.log.Warn("the authority was replaced: it is used after a restart", "subject", next.Authority.Certificate.Subject)
		return
	}
	next.Signing = old.Signing // issued tokens stay valid
	if !next.Serving.Certificate.Equal(old.Serving.Certificate) || !next.Admin.Certificate.Equal(old.Admin.Certificate) || !next.Proxy.Certificate.Equal(old.Proxy.Certificate) {
		r.current.Store(next)
		r.log.Info("certificates were renewed", "expires", next.Serving.Certificate.NotAfter)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.clients {
		if !needsRenewal(c.Certificate().Leaf, now) {
			continue
		}
		if err := c.issue(next, now); err != nil {
			r.log.Error("a client certificate cannot be renewed", "name", c.name, "error", err)
		}
	}
}
