package millrace

import (
	"context"
	"crypto/tls"
	"net/http"
	"os"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/internal/metricsapi"
	"github.com/millrace/millrace/internal/server/aggregation"
	"github.com/millrace/millrace/internal/server/auth"
	objects "github.com/millrace/millrace/internal/server/bootstrap"
	"github.com/millrace/millrace/internal/server/pki"
	"github.com/millrace/millrace/internal/server/registry"
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

// backends returns the API groups that are served in this process: metrics.k8s.io, if loops run that may need it.
func (c *Cluster) backends() map[schema.GroupVersion]aggregation.Backend {
	if len(c.options.Controllers) == 0 {
		return nil
	}
	usage := sync.OnceValue(func() http.Handler {
		config := c.InProcess()
		config.Transport = from{component(metricsUser), later{c}}
		kube, err := kubernetes.NewForConfig(config)
		if err != nil {
			return http.NotFoundHandler()
		}
		return metricsapi.New(metricsapi.Options{Kube: kube, Logger: c.options.Logger})
	})
	return map[schema.GroupVersion]aggregation.Backend{
		{Group: "metrics.k8s.io", Version: "v1beta1"}: {Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { usage().ServeHTTP(w, r) })},
	}
}

// later sends in-process requests once they can be served.
type later struct{ cluster *Cluster }

// RoundTrip implements http.RoundTripper.
func (l later) RoundTrip(r *http.Request) (*http.Response, error) {
	return l.cluster.inside.RoundTrip(r)
}

// ProxyOptions have the client certificate with which this server, as a front proxy, calls the servers of aggregated API groups. The
// files are read again when they change. By default the cluster's own authority of front proxies signs one. These servers learn whom
// to trust from a config map, which also gets the authorities in AuthenticationOptions.ProxyCAFile and ServingOptions.ClientCAFile.
type ProxyOptions struct {
	CertFile, KeyFile string
}

// proxyIdentity is how this server identifies itself as a front proxy, and what it tells others about front proxies.
type proxyIdentity struct {
	certificate func() *tls.Certificate
	// names are the common names of certificates of front proxies, and authorities their CA certificates in PEM.
	names       []string
	authorities func() []byte
	// headers are those of the front proxies in front of this server.
	headers *auth.FrontProxy
}

// openProxy returns the identity that the options say.
func (c *Cluster) openProxy() (*proxyIdentity, error) {
	keys, o, trusted := c.certificates.keys, c.options.Serving.Proxy, &c.options.Authentication
	own := func() []byte { return keys.Keys().ProxyAuthority.CertPEM }
	p := &proxyIdentity{certificate: keys.Proxy, names: []string{pki.ProxyName}, authorities: own, headers: &auth.FrontProxy{}}
	if o.CertFile != "" || o.KeyFile != "" {
		var err error
		if p.certificate, err = c.followPair("client certificate of the front proxy", o.CertFile, o.KeyFile); err != nil {
			return nil, err
		}
		p.names = append(p.names, p.certificate().Leaf.Subject.CommonName)
	}
	if trusted.ProxyCAFile != "" {
		p.names, p.headers = slices.Concat(p.names, trusted.Proxy.Names), &trusted.Proxy
		p.authorities = with(own, trusted.ProxyCAFile)
	}
	return p, nil
}

// with returns a bundle of certificates together with those in a file, as they are when it is called.
func with(own func() []byte, file string) func() []byte {
	return func() []byte {
		given, err := os.ReadFile(file)
		if err != nil {
			return own() // it is being replaced: what was published stays
		}
		return slices.Concat(own(), given)
	}
}
