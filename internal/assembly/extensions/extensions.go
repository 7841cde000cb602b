// Package extensions is what extends the API: custom resources, and API groups that other servers answer, or backends
// in this process.
package extensions

import (
	"context"
	"log/slog"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/internal/assembly"
	"github.com/millrace/millrace/internal/assembly/access"
	"github.com/millrace/millrace/internal/assembly/address"
	"github.com/millrace/millrace/internal/assembly/identity"
	"github.com/millrace/millrace/internal/assembly/objects"
	"github.com/millrace/millrace/internal/assembly/plugins"
	"github.com/millrace/millrace/internal/assembly/storage"
	"github.com/millrace/millrace/internal/metricsapi"
	"github.com/millrace/millrace/internal/server/aggregation"
	"github.com/millrace/millrace/internal/server/bootstrap"
	"github.com/millrace/millrace/internal/server/custom"
	"github.com/millrace/millrace/internal/server/outward"
	"github.com/millrace/millrace/internal/server/webhook"
)

// Options say what is there from the beginning.
type Options struct {
	// Usage says that this process answers for metrics.k8s.io, unless another server does.
	Usage bool
	// Inward says that no other server is called.
	Inward bool
	// Metrics gets what is told of the groups of other servers; nil means nobody asks.
	Metrics *prometheus.Registry
	Logger  *slog.Logger
}

// Extensions is the part. Its fields exist from Start on.
type Extensions struct {
	o       Options
	address *address.Address
	storage *storage.Storage
	access  *access.Access
	plugins *plugins.Plugins
	// Definitions serves custom resources, and Aggregator the groups of other servers.
	Definitions *custom.Definitions
	Aggregator  *aggregation.Aggregator
}

// New makes the part. Nothing is read before Start.
func New(o Options, a *address.Address, s *storage.Storage, who *access.Access, p *plugins.Plugins) *Extensions {
	return &Extensions{o: o, address: a, storage: s, access: who, plugins: p}
}

// Start reads the definitions and registers the groups. It publishes how aggregated servers can authenticate this one.
func (e *Extensions) Start(ctx context.Context, l *assembly.List) error {
	e.Definitions = e.plugins.Definitions
	if err := e.Definitions.CatchUp(ctx); err != nil {
		return err
	}
	l.Run("definitions of custom resources", e.Definitions.Run)
	trust, tracking := e.trust(), &bootstrap.Tracking{Registry: e.storage.Registry, Logger: e.o.Logger, Every: objects.CheckEvery(e.address)}
	if err := trust.Ensure(ctx); err != nil {
		return err
	}
	o := aggregation.Options{
		Registry: e.storage.Registry, Certificate: e.access.Proxy.Certificate, CatchUp: e.Definitions.CatchUp,
		Unreadable: e.Definitions.Unreadable, Backends: e.backends(), Logger: e.o.Logger,
	}
	if e.o.Inward {
		o.Dial = outward.Refuse
	}
	e.Aggregator = aggregation.New(o)
	if e.o.Metrics != nil {
		e.o.Metrics.MustRegister(e.Aggregator)
	}
	if err := e.Aggregator.Register(ctx); err != nil {
		return err
	}
	if err := tracking.Ensure(ctx); err != nil {
		return err
	}
	l.Run("aggregation", trust.Run, tracking.Run, e.Aggregator.Run, e.Aggregator.KeepRegistered)
	return nil
}

// Webhooks call the webhooks that convert custom objects.
func (e *Extensions) Webhooks() *webhook.Client { return e.plugins.Webhooks }

// trust maintains the config map from which other servers learn whom they may trust.
func (e *Extensions) trust() *bootstrap.Trust {
	p := e.access.Proxy
	return &bootstrap.Trust{
		Registry: e.storage.Registry, Logger: e.o.Logger, Every: objects.CheckEvery(e.address),
		Clients: p.Clients, Proxies: p.Authorities, ProxyNames: p.Names,
		UserHeaders: p.Headers.UserHeaders, UIDHeaders: p.Headers.UIDHeaders, GroupHeaders: p.Headers.GroupHeaders, ExtraPrefixes: p.Headers.ExtraPrefixes,
	}
}

// backends returns the API groups that are served in this process. They are made with the first request.
func (e *Extensions) backends() map[schema.GroupVersion]aggregation.Backend {
	if !e.o.Usage {
		return nil
	}
	usage := sync.OnceValue(func() http.Handler {
		config := e.address.Config()
		config.Transport = identity.From{User: identity.Metrics, Next: config.Transport}
		kube, err := kubernetes.NewForConfig(config)
		if err != nil {
			return http.NotFoundHandler()
		}
		return metricsapi.New(metricsapi.Options{Kube: kube, Logger: e.o.Logger})
	})
	return map[schema.GroupVersion]aggregation.Backend{
		{Group: "metrics.k8s.io", Version: "v1beta1"}: {Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { usage().ServeHTTP(w, r) })},
	}
}
