package millrace

import (
	"context"

	"github.com/millrace/millrace/server/aggregation"
	objects "github.com/millrace/millrace/server/bootstrap"
	"github.com/millrace/millrace/server/registry"
)

// aggregate lets other servers serve API groups, and publishes how they can authenticate this server.
func (c *Cluster) aggregate(ctx context.Context, reg *registry.Registry) error {
	keys := c.certificates.keys
	proxy, err := c.openProxy()
	if err != nil {
		return err
	}
	clients := func() []byte { return keys.Keys().Authority.CertPEM }
	if file := c.options.Serving.ClientCAFile; file != "" {
		clients = with(clients, file)
	}
	trust := &objects.Trust{
		Registry: reg, Logger: c.options.Logger, Every: c.bootstrapEvery(), Clients: clients, Proxies: proxy.authorities, ProxyNames: proxy.names,
		UserHeaders: proxy.headers.UserHeaders, UIDHeaders: proxy.headers.UIDHeaders, GroupHeaders: proxy.headers.GroupHeaders, ExtraPrefixes: proxy.headers.ExtraPrefixes,
	}
	if err := trust.Ensure(ctx); err != nil {
		return err
	}
	c.aggregator = aggregation.New(aggregation.Options{
		Registry: reg, Certificate: proxy.certificate, CatchUp: c.definitions.CatchUp, Backends: c.backends(), Logger: c.options.Logger,
	})
	if err := c.aggregator.Register(ctx); err != nil {
		return err
	}
	tracking := &objects.Tracking{Registry: reg, Logger: c.options.Logger, Every: c.bootstrapEvery()}
	if err := tracking.Ensure(ctx); err != nil {
		return err
	}
	c.run("aggregation", trust.Run, tracking.Run, c.aggregator.Run, c.aggregator.KeepRegistered)
	return nil
}
