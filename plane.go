package millrace

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/millrace/millrace/internal/seam"
	"github.com/millrace/millrace/internal/server/admission"
	"github.com/millrace/millrace/internal/server/admission/policies"
	"github.com/millrace/millrace/internal/server/allocation"
	"github.com/millrace/millrace/internal/server/auth/rbac"
	objects "github.com/millrace/millrace/internal/server/bootstrap"
	"github.com/millrace/millrace/internal/server/custom"
	"github.com/millrace/millrace/internal/server/ownership"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/builtin"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/etcd"
	"github.com/millrace/millrace/internal/server/store/memory"
	"github.com/millrace/millrace/internal/server/watchcache"
)

const (
	// These limit the history beside the current state: in the store, which only the watch cache reads, and for each kind in the
	// watch cache. With 6 MiB for each kind, watchers that read nothing for two seconds of a burst got 410 Gone.
	historyBytes = 6 << 20
	windowBytes  = 16 << 20
	// formBytes limits the cached encoded answers of all kinds. A list that does not fit is encoded for each request, which costs
	// four times as much; an answer that no client requests again is dropped.
	formBytes = 96 << 20
	// graceToClose is how long connections may take to end in order.
	graceToClose = time.Second
	// flushTime is how long written answers may take to reach the network.
	flushTime = 10 * time.Millisecond
)

func (c *Cluster) start(ctx context.Context) error {
	// The port comes first: if it is in use, nothing else needs to be undone, and nothing on disk was touched.
	listener, err := listen(ctx, c.options.Listen)
	if err != nil {
		return err
	}
	if listener != nil {
		c.opened("listener", func() error { return closeListener(listener) })
		c.address = listener.Addr().String()
	}
	if c.advertised, err = c.advertise(); err != nil {
		return err
	}
	if err := c.openCertificates(); err != nil {
		return err
	}
	s, reg, cache, err := c.startStorage(ctx)
	if err != nil {
		return err
	}
	if err := c.prepare(ctx, reg); err != nil {
		return err
	}
	if err := c.startExtensions(ctx, reg); err != nil {
		return err
	}
	if err := c.serve(listener, reg, cache); err != nil {
		return err
	}
	if err := c.keepEndpoints(s); err != nil {
		return err
	}
	if err := c.startLoops(ctx); err != nil {
		return err
	}
	c.opened("shutdown delay", c.delayEnd) // it is stopped first
	return nil
}

// startStorage starts all that is between a request and the disk.
func (c *Cluster) startStorage(ctx context.Context) (store.Store, *registry.Registry, *watchcache.Cache, error) {
	s, err := c.openStore(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	s = seam.Wrap(ctx, s)
	c.opened("store", s.Close)
	kept, err := c.encrypted(ctx, s)
	if err != nil {
		return nil, nil, nil, err
	}
	reg, cache, alloc, err := c.newRegistry(kept)
	if err != nil {
		return nil, nil, nil, err
	}
	c.run("watch cache", cache.Run)
	if every := c.options.CompactEvery; every >= 0 {
		c.run("compaction", func(ctx context.Context) error { return store.RunCompaction(ctx, s, every, cache.Compacted) })
	}
	if err := c.waitForCache(ctx, cache); err != nil {
		return nil, nil, nil, err
	}
	if err := alloc.Prepare(ctx); err != nil {
		return nil, nil, nil, fmt.Errorf("prepare the addresses of services: %w", err)
	}
	c.run("addresses and ports of services", alloc.Run)
	return s, reg, cache, nil
}

// prepare makes the objects that a cluster begins with.
func (c *Cluster) prepare(ctx context.Context, reg *registry.Registry) error {
	if err := bootstrap(ctx, reg, c.options.ServiceRange, c.port()); err != nil {
		return err
	}
	if err := c.publish(ctx, reg); err != nil {
		return err
	}
	if err := rbac.Reconcile(ctx, reg, policy()); err != nil {
		return err
	}
	flows := &objects.Flows{Registry: reg, Logger: c.options.Logger, Every: c.bootstrapEvery()}
	if err := flows.Ensure(ctx); err != nil {
		return err
	}
	c.run("flow control objects", flows.Run)
	return c.follow(ctx, c.permissions)
}

// startExtensions starts what follows the objects that change the API itself.
func (c *Cluster) startExtensions(ctx context.Context, reg *registry.Registry) error {
	if err := c.definitions.CatchUp(ctx); err != nil {
		return err
	}
	c.run("definitions of custom resources", c.definitions.Run)
	if err := c.divide(ctx, reg); err != nil {
		return err
	}
	return c.aggregate(ctx, reg)
}

// delayEnd lets the server say for a while that it is not ready, before anything of it ends.
func (c *Cluster) delayEnd() error {
	c.ending.Store(true)
	if delay := c.options.Serving.ShutdownDelay; delay > 0 {
		c.options.Logger.Info("the server is about to end, and says that it is not ready", "delay", delay)
		time.Sleep(delay)
	}
	return nil
}

// waitForCache waits until the state of the store was read. It gives up if an etcd cluster stops answering.
func (c *Cluster) waitForCache(ctx context.Context, cache *watchcache.Cache) error {
	if e := c.options.Etcd; len(e.Servers) > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, e.StartTimeout, fmt.Errorf("its state could not be read within %v: %w", e.StartTimeout, store.ErrUnavailable))
		defer cancel()
	}
	if err := cache.WaitReady(ctx); err != nil {
		return fmt.Errorf("wait for the first state of the store: %w", err)
	}
	return nil
}

// port returns the port in the Service "kubernetes".
func (c *Cluster) port() int {
	const usual = 6443
	if at, err := netip.ParseAddrPort(c.address); err == nil {
		return int(at.Port())
	}
	return usual // there is no listener
}

func closeListener(l net.Listener) error {
	if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// listen opens the port of an address, unless the address is "none".
func listen(ctx context.Context, address string) (net.Listener, error) {
	if address == noPort {
		return nil, nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", address, errors.Unwrap(err))
	}
	return l, nil
}

func (c *Cluster) openStore(ctx context.Context) (store.Store, error) {
	e := c.options.Etcd
	switch {
	case len(e.Servers) > 0:
		return etcd.Dial(ctx, etcd.Options{Endpoints: e.Servers, CertFile: e.CertFile, KeyFile: e.KeyFile, CAFile: e.CAFile, DialTimeout: e.StartTimeout, Logger: c.options.Logger})
	case c.options.Data == "":
		return memory.New(memory.Options{HistoryBytes: historyBytes}), nil
	}
	return etcd.Embed(ctx, etcd.EmbedOptions{Dir: filepath.Join(c.options.Data, "etcd"), Logger: c.options.Logger})
}

// admission returns the admission plugins in their order.
func (c *Cluster) admission(reg *registry.Registry) ([]registry.Admission, error) {
	o := c.options.Admission
	configuration, err := o.configuration()
	if err != nil {
		return nil, err
	}
	extensions, err := c.extend(reg, configuration)
	if err != nil {
		return nil, err
	}
	return admission.New(admission.Options{
		Registry: reg, ServiceAccounts: c.makesAccounts(), Authorize: c.permissions, Enable: o.Enable, Disable: o.Disable,
		NotReadySeconds: o.NotReadySeconds, UnreachableSeconds: o.UnreachableSeconds,
		Configuration: configuration, Extensions: append(extensions, c.permissions.admission()...),
	})
}

func (c *Cluster) newRegistry(s store.Store) (*registry.Registry, *watchcache.Cache, *allocation.Services, error) {
	cache := watchcache.New(s, watchcache.Options{
		Root: registry.Root, WindowBytes: windowBytes, FormBudget: formBytes, Logger: c.options.Logger,
	})
	kinds := builtin.Kinds()
	policies.Complete(kinds)
	keepEvents(kinds, c.options.EventTTL)
	if err := switchAPIs(kinds, c.options.RuntimeConfig, c.options.Logger); err != nil {
		return nil, nil, nil, err
	}
	catalogue, err := resource.NewCatalogue(kinds...)
	if err != nil {
		return nil, nil, nil, err
	}
	uncached := map[string]bool{}
	for _, name := range c.options.Uncached {
		uncached[name] = true
	}
	reg, err := registry.New(registry.Options{
		Store: s, Cache: cache, Catalogue: catalogue, Track: &ownership.Owners{}, Uncached: uncached, Window: c.options.Window, Logger: c.options.Logger,
	})
	if err != nil {
		return nil, nil, nil, err
	}
	alloc, err := c.plug(reg)
	return reg, cache, alloc, err
}

// plug makes what takes part in each write, and plugs it into the registry.
func (c *Cluster) plug(reg *registry.Registry) (*allocation.Services, error) {
	ranges, err := allocation.ParseRanges(c.options.ServiceRange)
	if err != nil {
		return nil, err
	}
	alloc, err := allocation.New(allocation.Options{Registry: reg, Ranges: ranges, NodePorts: c.options.NodePorts, Logger: c.options.Logger})
	if err != nil {
		return nil, err
	}
	if c.permissions, err = c.newPermissions(reg); err != nil {
		return nil, err
	}
	plugins, err := c.admission(reg)
	if err != nil {
		return nil, err
	}
	if c.definitions, err = custom.New(custom.Options{Registry: reg, Fresh: reg.Cache.Fresh, Webhooks: c.extensions.client, Logger: c.options.Logger}); err != nil {
		return nil, err
	}
	reg.Admission, reg.Allocate = append(plugins, c.definitions.Admission()), alloc
	return alloc, nil
}

// keepEvents sets how long events are kept. Zero leaves the default; a negative duration keeps them for ever.
func keepEvents(kinds []*resource.Kind, ttl time.Duration) {
	for _, k := range kinds {
		if ttl != 0 && k.Resource == "events" && k.Group == "" {
			k.TTL = max(ttl, 0)
		}
	}
}
