package millrace

import (
	"context"
	"crypto"
	"fmt"
	"log"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/server/actions"
	"github.com/millrace/millrace/internal/server/apiserver"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/auth/bootstraptoken"
	"github.com/millrace/millrace/internal/server/auth/oidc"
	"github.com/millrace/millrace/internal/server/auth/webhook"
	"github.com/millrace/millrace/internal/server/connections"
	"github.com/millrace/millrace/internal/server/h2"
	"github.com/millrace/millrace/internal/server/inprocess"
	"github.com/millrace/millrace/internal/server/metrics"
	"github.com/millrace/millrace/internal/server/openapi"
	"github.com/millrace/millrace/internal/server/ownership"
	"github.com/millrace/millrace/internal/server/pki"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// serve starts serving requests: in-process and, through listener if it is not nil, from the network.
func (c *Cluster) serve(listener net.Listener, reg *registry.Registry, cache *watchcache.Cache) error {
	streams, err := c.connections(reg)
	if err != nil {
		return err
	}
	c.opened("connections to nodes", func() error { streams.Close(); return nil })
	api, err := c.api(reg, cache, streams)
	if err != nil {
		return err
	}
	c.inside = inprocess.New(api, asAdministrator)
	if listener == nil {
		c.opened("answers", func() error { endStreams(api, streams); api.Wait(); return nil })
	} else if err := c.serveNetwork(listener, api, streams); err != nil {
		return err
	}
	c.opened("requests from inside", func() error { c.inside.Close(); return nil })
	return nil
}

// serveNetwork serves the connections of a listener.
func (c *Cluster) serveNetwork(listener net.Listener, api *apiserver.Server, streams *connections.Connections) error {
	config := c.certificates.tls(c.options.Serving.TLS)
	server := &http.Server{
		Handler: c.options.Serving.Headers.around(api), TLSConfig: config, ReadHeaderTimeout: 30 * time.Second, IdleTimeout: 3 * time.Minute, MaxHeaderBytes: 1 << 20,
		ErrorLog: errorLog(c.options.Logger),
	}
	multiplexed := h2.New(h2.Options{MaxStreams: 1000, Logger: c.options.Logger})
	multiplexed.Serve(server)
	c.run("listener", func(context.Context) error { return server.ServeTLS(listener, "", "") })
	c.stages[len(c.stages)-1].cancel = func(error) { shutDown(api, streams, server, multiplexed) }
	return nil
}

// api returns the request handler.
func (c *Cluster) api(reg *registry.Registry, cache *watchcache.Cache, streams *connections.Connections) (api *apiserver.Server, err error) {
	issuer, err := c.issuer(reg)
	if err != nil {
		return nil, err
	}
	c.metrics = metrics.New(metrics.Options{Cache: cache, Version: Version(), InFlight: func() (int, int) { return api.InFlight() }})
	c.metrics.Registry.MustRegister(c.extensions.metrics, c.permissions)
	for _, m := range c.extensions.manifests {
		c.metrics.Registry.MustRegister(m)
	}
	issuers, err := c.issuers()
	if err != nil {
		return nil, err
	}
	tokens, err := c.tokens(issuer, issuers, reg)
	if err != nil {
		return nil, err
	}
	extra, err := c.documents(reg, issuer)
	if err != nil {
		return nil, err
	}
	proxy, err := c.frontProxy()
	if err != nil {
		return nil, err
	}
	log, err := c.openAudit()
	if err != nil {
		return nil, err
	}
	if log != nil {
		c.metrics.Registry.MustRegister(log)
	}
	o := apiserver.Options{
		Audit:        log,
		Registry:     reg,
		Authenticate: knownClients{auth.Trusted{Others: &auth.Requests{Clients: c.certificates.clients, Tokens: tokens, Proxy: proxy, Anonymous: c.anonymous(issuers)}}},
		Authorize:    c.permissions,
		Fairness:     c.fairness,
		Queued:       h2.Queued,
		Apply:        reg.Track.(*ownership.Owners),
		Connections:  streams.All(),
		Actions:      actions.All(actions.Options{Authorize: c.permissions, Tokens: tokens, Issue: issuer}),
		Live:         map[string]apiserver.Live{"componentstatuses": c.components(reg)},
		Checks:       c.checks(reg, cache),
		Extra:        extra,
		Delegate:     c.aggregator,
		CatchUp:      c.definitions.CatchUp,
		Settle:       c.definitions.Settle,
		Metrics:      c.metrics.Requests(),
		Version:      Version(),
		Address:      c.externalAddress(c.address),
		NoProfiling:  c.options.Serving.NoProfiling,
		Privileged:   c.options.AllowPrivileged,
		Logger:       c.options.Logger,
	}
	c.options.Serving.bounds(&o)
	if c.options.Listen == noPort && o.BookmarkPeriod == 0 {
		o.BookmarkPeriod = time.Hour // connections do not fail here, and watches end with a bookmark
	}
	return apiserver.New(o), nil
}

// issuer returns what makes service account tokens and authenticates them.
func (c *Cluster) issuer(reg *registry.Registry) (*actions.Issuer, error) {
	o := c.options.Serving.Tokens
	var keys []crypto.PublicKey
	for _, path := range o.KeyFiles {
		more, err := pki.ReadPublicKeys(path)
		if err != nil {
			return nil, fmt.Errorf("keys of service account tokens: %w", err)
		}
		keys = append(keys, more...)
	}
	return actions.NewIssuer(actions.IssuerOptions{
		Key: c.certificates.signing, Keys: keys, Names: o.Issuers, Audiences: o.Audiences, MaxLife: o.MaxLife, NoExtension: o.NoExtension, KeysURI: o.KeysURI,
		Registry: reg, Now: time.Now,
	})
}

// tokens returns the authenticators for tokens.
func (c *Cluster) tokens(issuer *actions.Issuer, others *oidc.Tokens, reg *registry.Registry) (auth.Sources, error) {
	forServer := func(t auth.Tokens) auth.Tokens {
		return auth.ForServer{Tokens: t, Audiences: c.options.Serving.Tokens.Audiences}
	}
	tokens := auth.Sources{issuer, forServer(&actions.SecretTokens{Issuer: issuer, Logger: c.options.Logger}), forServer(&bootstraptoken.Tokens{Registry: reg})}
	if c.options.TokenFile != "" {
		file, err := auth.ReadTokenFile(c.options.TokenFile)
		if err != nil {
			return nil, err
		}
		tokens = slices.Insert(tokens, 0, forServer(file))
	}
	if others != nil {
		tokens = append(tokens, others)
	}
	if o := c.options.Authentication.TokenWebhook; o.ConfigFile != "" {
		o.Audiences = c.options.Serving.Tokens.Audiences
		if s := c.options.Serving; o.Most <= 0 { // half of those whose tokens are checked: tokens of other sources need no webhook
			o.Most = (or(s.MaxInFlight, 400) + or(s.MaxMutatingInFlight, 200)) / 2
		}
		asked, err := webhook.NewTokens(o)
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, asked)
	}
	return tokens, nil
}

// documents returns the handlers for paths that are not resources.
func (c *Cluster) documents(reg *registry.Registry, issuer *actions.Issuer) (map[string]http.Handler, error) {
	documents := openapi.New(openapi.Options{
		Catalogue: reg.Catalogue, Version: Version().GitVersion,
		Others: c.aggregator.Documents, Other: c.aggregator.Document,
		Foreign: func(ctx context.Context) (all []openapi.Foreign) {
			for _, d := range c.aggregator.Descriptions(ctx) {
				all = append(all, openapi.Foreign(d))
			}
			return all
		},
		Settle: c.definitions.Settle,
		Schema: func(f *resource.Face) *openapi.Schema { return openapi.FromDefinition(c.definitions.Schema(f)) },
	})
	c.opened("openapi", func() error { documents.Close(); return nil })
	all := documents.Handlers()
	published, err := issuer.Documents(c.keysAddress())
	if err != nil {
		return nil, err
	}
	maps.Copy(all, published)
	all["/metrics"] = c.metrics.Handler()
	if c.fairness != nil {
		c.metrics.Registry.MustRegister(c.fairness)
		maps.Copy(all, c.fairness.Handlers())
	}
	return all, nil
}

// endStreams ends watches and other long-running requests.
func endStreams(api *apiserver.Server, streams *connections.Connections) {
	api.End()
	streams.End()
}

// shutDown ends the streams, waits for running requests, and then closes the rest.
func shutDown(api *apiserver.Server, streams *connections.Connections, server *http.Server, multiplexed *h2.Server) {
	endStreams(api, streams)
	ctx, cancel := context.WithTimeout(context.Background(), graceToClose)
	defer cancel()
	var idle sync.WaitGroup
	idle.Go(func() {
		// net/http would keep an HTTP/2 connection open for a second after its last answer.
		api.Idle(ctx)
		time.Sleep(flushTime)
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

func errorLog(l *slog.Logger) *log.Logger { return slog.NewLogLogger(l.Handler(), slog.LevelDebug) }
