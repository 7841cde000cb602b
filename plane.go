package millrace

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/actions"
	"github.com/millrace/millrace/admission"
	"github.com/millrace/millrace/allocation"
	"github.com/millrace/millrace/apiserver"
	"github.com/millrace/millrace/auth"
	"github.com/millrace/millrace/connections"
	"github.com/millrace/millrace/h2"
	"github.com/millrace/millrace/inprocess"
	"github.com/millrace/millrace/metrics"
	"github.com/millrace/millrace/openapi"
	"github.com/millrace/millrace/ownership"
	"github.com/millrace/millrace/pki"
	"github.com/millrace/millrace/registry"
	"github.com/millrace/millrace/resource"
	"github.com/millrace/millrace/resource/builtin"
	"github.com/millrace/millrace/store"
	"github.com/millrace/millrace/store/etcd"
	"github.com/millrace/millrace/store/memory"
	"github.com/millrace/millrace/watchcache"
)

const (
	issuerName = "https://kubernetes.default.svc.cluster.local"
	// These bound what is kept beside the present state: in the store, and for each kind in the watch cache. A watch is
	// behind by few events unless its client has gone, so that more would cost memory and save little.
	historyBytes = 6 << 20
	windowBytes  = 6 << 20
	// formBytes bounds encoded answers, of all kinds. A list that does not fit is encoded anew each time, which costs four
	// times as much; what nobody asks for again goes by itself.
	formBytes = 96 << 20
	// graceToClose is how long connections may take to end in order.
	graceToClose = time.Second
	// lastWords is how long answers that have been given may take to reach the network.
	lastWords = 10 * time.Millisecond
)

func (c *Cluster) start(ctx context.Context) error {
	// The port comes first: if it is taken, nothing else needs to be undone, and nothing on disk has been touched.
	listener, err := listen(ctx, c.options.Listen)
	if err != nil {
		return err
	}
	c.opened("listener", func() error { return closeListener(listener) })
	c.address = listener.Addr().String()
	if c.keys, err = pki.Open(c.keyFolder(), c.hosts(), time.Now()); err != nil {
		return err
	}
	s, err := c.openStore(ctx)
	if err != nil {
		return err
	}
	if c.options.around != nil {
		s = c.options.around(s)
	}
	c.store = s
	c.opened("store", s.Close)
	reg, cache, alloc, err := c.newRegistry(s)
	if err != nil {
		return err
	}
	c.run("watch cache", cache.Run)
	if every := c.options.CompactEvery; every >= 0 {
		c.run("compaction", func(ctx context.Context) error { return store.RunCompaction(ctx, s, every) })
	}
	if err := cache.WaitReady(ctx); err != nil {
		return fmt.Errorf("wait for the first state of the store: %w", err)
	}
	if err := alloc.Prepare(ctx); err != nil {
		return fmt.Errorf("prepare the addresses of services: %w", err)
	}
	c.run("addresses and ports of services", alloc.Run)
	if err := bootstrap(ctx, reg, c.options.ServiceRange, listener.Addr()); err != nil {
		return err
	}
	if err := c.serve(listener, reg, cache); err != nil {
		return err
	}
	return c.startLoops(ctx)
}

func closeListener(l net.Listener) error {
	if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

func listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", address, errors.Unwrap(err))
	}
	return l, nil
}

func (c *Cluster) keyFolder() string {
	if c.options.Keys != "" || c.options.Data == "" {
		return c.options.Keys
	}
	return filepath.Join(c.options.Data, "pki")
}

// hosts are what the serving certificate is good for.
func (c *Cluster) hosts() []string {
	hosts := []string{"localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	if host, _, err := net.SplitHostPort(c.address); err == nil {
		if ip := net.ParseIP(host); ip == nil || !ip.IsUnspecified() {
			hosts = append(hosts, host)
		}
	}
	if first, err := firstAddress(c.options.ServiceRange); err == nil {
		hosts = append(hosts, first)
	}
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, name)
	}
	return append(hosts, c.options.Hosts...)
}

func (c *Cluster) openStore(ctx context.Context) (store.Store, error) {
	e := c.options.Etcd
	switch {
	case len(e.Servers) > 0:
		return etcd.Dial(ctx, etcd.Options{Endpoints: e.Servers, CertFile: e.CertFile, KeyFile: e.KeyFile, CAFile: e.CAFile, Logger: c.options.Logger})
	case c.options.Data == "":
		return memory.New(memory.Options{HistoryBytes: historyBytes}), nil
	}
	return etcd.Embed(ctx, etcd.EmbedOptions{Dir: filepath.Join(c.options.Data, "etcd"), Logger: c.options.Logger})
}

func (c *Cluster) newRegistry(s store.Store) (*registry.Registry, *watchcache.Cache, *allocation.Services, error) {
	cache := watchcache.New(s, watchcache.Options{
		Root: registry.Root, WindowBytes: windowBytes, FormBudget: formBytes, Logger: c.options.Logger,
	})
	catalogue, err := resource.NewCatalogue(builtin.Kinds()...)
	if err != nil {
		return nil, nil, nil, err
	}
	var reg *registry.Registry
	current := func() *registry.Registry { return reg }
	ranges, err := allocation.ParseRanges(c.options.ServiceRange)
	if err != nil {
		return nil, nil, nil, err
	}
	alloc, err := allocation.New(allocation.Options{Registry: current, Ranges: ranges, Logger: c.options.Logger})
	if err != nil {
		return nil, nil, nil, err
	}
	uncached := map[string]bool{}
	for _, name := range c.options.Uncached {
		uncached[name] = true
	}
	reg, err = registry.New(registry.Options{
		Store: s, Cache: cache, Catalogue: catalogue, Track: &ownership.Owners{}, Uncached: uncached, Window: c.options.Window,
		Admission: admission.Default(admission.Options{Registry: current, ServiceAccounts: c.makesAccounts(), Authorize: auth.MastersOnly{}}),
		Allocate:  alloc, Logger: c.options.Logger,
	})
	return reg, cache, alloc, err
}

// serve starts answering requests, from the network and from inside.
func (c *Cluster) serve(listener net.Listener, reg *registry.Registry, cache *watchcache.Cache) error {
	issuer := &actions.Issuer{Key: c.keys.Signing, Name: issuerName, Registry: func() *registry.Registry { return reg }, Now: time.Now}
	tokens := []auth.Tokens{issuer}
	if c.options.TokenFile != "" {
		file, err := auth.ReadTokenFile(c.options.TokenFile)
		if err != nil {
			return err
		}
		tokens = slices.Insert(tokens, 0, auth.Tokens(file))
	}
	authorizer := auth.MastersOnly{}
	documents := openapi.New(openapi.Options{Catalogue: reg.Catalogue, Version: Version().GitVersion})
	c.opened("openapi", func() error { documents.Close(); return nil })
	streams, err := c.connections(reg)
	if err != nil {
		return err
	}
	clients, err := c.clients()
	if err != nil {
		return err
	}
	config, err := c.tls()
	if err != nil {
		return err
	}
	c.opened("connections to nodes", func() error { streams.Close(); return nil })
	var api *apiserver.Server
	c.metrics = metrics.New(metrics.Options{Cache: cache, Version: Version(), InFlight: func() (int, int) { return api.InFlight() }})
	extra := documents.Handlers()
	published, err := issuer.Documents(c.address)
	if err != nil {
		return err
	}
	maps.Copy(extra, published)
	extra["/metrics"] = c.metrics.Handler()
	o := apiserver.Options{
		Registry:     reg,
		Authenticate: auth.Trusted{Others: &auth.Requests{Clients: clients, Tokens: tokens}},
		Authorize:    authorizer,
		Apply:        reg.Track.(*ownership.Owners),
		Connections:  streams.All(),
		Actions:      actions.All(actions.Options{Authorize: authorizer, Authenticate: tokens, Issue: issuer}),
		Checks:       checks(reg, cache),
		Extra:        extra,
		Metrics:      c.metrics.Requests(),
		Version:      Version(),
		Address:      c.address,
		Privileged:   c.options.AllowPrivileged,
		Logger:       c.options.Logger,
	}
	c.options.Serving.bounds(&o)
	api = apiserver.New(o)
	server := &http.Server{
		Handler: api, TLSConfig: config, ReadHeaderTimeout: 30 * time.Second, IdleTimeout: 3 * time.Minute, MaxHeaderBytes: 1 << 20,
		ErrorLog: errorLog(c.options.Logger),
	}
	multiplexed := h2.New(h2.Options{MaxStreams: 1000, Logger: c.options.Logger})
	multiplexed.Serve(server)
	c.inside = inprocess.New(api, asAdministrator)
	c.run("listener", func(context.Context) error { return server.ServeTLS(listener, "", "") })
	c.stages[len(c.stages)-1].cancel = func(error) { shutDown(api, streams, server, multiplexed) }
	c.opened("requests from inside", func() error { c.inside.Close(); return nil })
	return nil
}

// asAdministrator is how the cluster's own loops call.
func asAdministrator(ctx context.Context) context.Context {
	return auth.WithUser(ctx, auth.User{Name: "system:millrace", Groups: []string{auth.Masters, auth.Authenticated}})
}

// shutDown ends the streams, lets the requests end that are under way, and then closes what is left.
func shutDown(api *apiserver.Server, streams *connections.Connections, server *http.Server, multiplexed *h2.Server) {
	api.End()
	streams.End()
	ctx, cancel := context.WithTimeout(context.Background(), graceToClose)
	defer cancel()
	var idle sync.WaitGroup
	idle.Go(func() {
		// An HTTP/2 connection would stay for a second after its last answer, for nobody's good.
		api.Idle(ctx)
		time.Sleep(lastWords)
		cancel()
	})
	if server.Shutdown(ctx) != nil {
		server.Close()
	}
	cancel()
	idle.Wait()
	multiplexed.Wait()
	api.Wait()
}

func checks(reg *registry.Registry, cache *watchcache.Cache) []apiserver.Check {
	return []apiserver.Check{
		{Name: "etcd", Live: true, Do: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			_, err := reg.Store.Revision(ctx)
			return err
		}},
		{Name: "storage-space", Do: func(context.Context) error { return reg.Store.Writable() }},
		{Name: "watch-cache", Do: func(context.Context) error {
			if !cache.Ready() {
				return watchcache.ErrNotReady
			}
			return nil
		}},
	}
}
