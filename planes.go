package millrace

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/assembly/access"
	"github.com/millrace/millrace/internal/assembly/address"
	"github.com/millrace/millrace/internal/planes"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/datadir"
	"github.com/millrace/millrace/internal/server/past"
	"github.com/millrace/millrace/internal/server/store"
)

// planeOptions are those of a cluster that another one runs.
type planeOptions struct {
	inside bool // it is run by another one, at whose port it is reached
	inward bool // webhooks and other API servers are not called
	// segment is the size of the log's files: a plane that has little must not take much of the disk.
	segment int64
	objects int
	bytes   int64
}

// planeSegment is large enough for a thousand changes of pods.
const planeSegment = 1 << 20

// Plane returns a client configuration for the administrator of a control plane that this cluster runs, whose requests
// go there without a connection. A plane that sleeps is woken by them. It needs Options.Planes.
func (c *Cluster) Plane(name string) *rest.Config { return c.planes.Config(name) }

// newPlanes makes the control planes of a cluster; nil if it has none.
func (p *parsed) newPlanes(at *address.Address, who *access.Access) *planes.Planes {
	if !p.Planes {
		return nil
	}
	o := planes.Options{
		Start: p.startPlane, Logger: p.Logger,
		Host: func() (string, []byte) { return at.URL(), who.Authorities() },
	}
	if p.Data != "" {
		o.Directory = filepath.Join(p.Data, "planes")
	}
	return planes.New(o)
}

// startPlane starts the cluster of a plane. What it is not said how to be is as in its host.
func (p *parsed) startPlane(ctx context.Context, directory string, s planes.Settings) (planes.Cluster, error) {
	o := Options{
		Data: directory, Listen: address.None, Nodes: s.Nodes, NoScheduler: s.Paused,
		AllowPrivileged: p.AllowPrivileged, EventTTL: p.EventTTL, CompactEvery: p.CompactEvery, History: p.History, Encryption: p.Encryption,
		RuntimeConfig: p.RuntimeConfig, Logger: p.Logger.With("plane", s.Name),
		plane: planeOptions{inside: true, inward: !s.Outward, segment: planeSegment, objects: s.Objects, bytes: s.Bytes},
	}
	o.Serving.NoProfiling = true // profiles show the whole process
	o.Serving.BookmarkPeriod, o.Serving.FeatureGates = p.Serving.BookmarkPeriod, p.Serving.FeatureGates
	if s.Paused {
		o.Controllers = []string{}
	}
	if directory != "" {
		if err := os.MkdirAll(directory, 0o700); err != nil {
			return nil, err
		}
	}
	c, err := Start(ctx, o)
	if err != nil {
		return nil, err
	}
	return &plane{c}, nil
}

// plane is a cluster as one that another cluster runs.
type plane struct{ *Cluster }

// ServeHTTP implements planes.Cluster.
func (p *plane) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.web.API.ServeHTTP(w, r) }

// Transport implements planes.Cluster.
func (p *plane) Transport() http.RoundTripper { return p.address.Inside }

// Knows implements planes.Cluster.
func (p *plane) Knows(r *http.Request) bool {
	u, err := p.access.Authenticate.Authenticate(r)
	return err == nil && u.In(auth.Authenticated)
}

// Administrator implements planes.Cluster.
func (p *plane) Administrator() (certificate, key []byte) {
	pair := p.access.Keys().Admin
	return pair.CertPEM, pair.KeyPEM
}

// Rest implements planes.Cluster.
func (p *plane) Rest() (rests bool, due time.Time) { return p.loops.Rest() }

// Use implements planes.Cluster.
func (p *plane) Use(ctx context.Context) (objects int, bytes int64) {
	bytes, err := p.storage.Store.Size(ctx)
	if err != nil {
		bytes = 0
	}
	return p.storage.Objects(), bytes
}

// Fork implements planes.Cluster.
func (p *plane) Fork(ctx context.Context, directory, at string) (int64, error) {
	rev, err := p.moment(ctx, at)
	if err != nil {
		return 0, err
	}
	if p.storage.Journal == nil {
		return 0, errors.New("its objects are not on a disk")
	}
	return int64(rev), p.storage.Journal.Fork(ctx, datadir.Log(directory), rev, datadir.Life(0))
}

// moment returns the revision of a moment, "" being now.
func (p *plane) moment(ctx context.Context, at string) (store.Revision, error) {
	if at == "" {
		return p.storage.Store.Revision(ctx)
	}
	before := past.New(past.Options{Store: p.storage.Registry.Store})
	defer before.Close()
	return before.Resolve(ctx, at)
}

var _ planes.Cluster = (*plane)(nil)
