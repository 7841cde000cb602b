// Package web is the API: it answers requests from this process and from the network.
package web

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/version"

	"github.com/millrace/millrace/internal/assembly"
	"github.com/millrace/millrace/internal/assembly/access"
	"github.com/millrace/millrace/internal/assembly/address"
	"github.com/millrace/millrace/internal/assembly/extensions"
	"github.com/millrace/millrace/internal/assembly/storage"
	"github.com/millrace/millrace/internal/features"
	"github.com/millrace/millrace/internal/planes"
	"github.com/millrace/millrace/internal/server/apiserver"
	"github.com/millrace/millrace/internal/server/audit"
	"github.com/millrace/millrace/internal/server/connections"
	"github.com/millrace/millrace/internal/server/endpoints"
	"github.com/millrace/millrace/internal/server/page"
)

// Options say how requests are answered.
type Options struct {
	// MaxInFlight and MaxMutatingInFlight limit the requests that are served at the same time. With NoFairness they are
	// two limits for all clients together; otherwise API Priority and Fairness divides their sum.
	MaxInFlight, MaxMutatingInFlight int
	NoFairness                       bool
	// RequestTimeout ends requests that are not long-running. MinRequestTimeout is how long a watch stays open at
	// least.
	RequestTimeout, MinRequestTimeout time.Duration
	BookmarkPeriod                    time.Duration
	NoProfiling                       bool
	// Inward says that nodes and what runs on them are not called.
	Inward bool
	// Page serves the page for browsers: on the port, and without TLS on a port of its own if that is one of loopback.
	Page bool
	// Planes serves the paths of other control planes, if it is not nil.
	Planes http.Handler
	// Privileged allows privileged containers.
	Privileged bool
	// ShutdownDelay is how long the server continues after its end was announced.
	ShutdownDelay time.Duration
	Headers       Headers
	Kubelets      Kubelets
	Audit         audit.Options
	// SchedulerElsewhere and ControllersElsewhere say that these programs are asked on this machine how they are.
	SchedulerElsewhere, ControllersElsewhere bool
	// ServiceAddress is the one of the Service "kubernetes".
	ServiceAddress netip.Addr
	Version        version.Info
	// Flags are shown at /flagz. Without them there is no such page.
	Flags map[string]string
	// Features are what was said of feature gates.
	Features features.Set

	// Metrics gets the metrics of the API, and is served with all that it has.
	Metrics *prometheus.Registry
	Logger  *slog.Logger
}

// Headers are HTTP headers of the port.
type Headers struct {
	StrictTransport []string
	Origins         []*regexp.Regexp
	GoAwayChance    float64
}

// Kubelets configure the connections to kubelets.
type Kubelets struct {
	Timeout      time.Duration
	AddressTypes []string
}

// Web is the part.
type Web struct {
	o          Options
	address    *address.Address
	storage    *storage.Storage
	access     *access.Access
	extensions *extensions.Extensions
	ending     atomic.Bool // the end was announced
	page       *page.Page  // nil if there is none
	pageURL    string      // where the page is, if it has a port of its own
	// API answers the requests of clients from outside. It exists from Start on.
	API http.Handler
}

// New makes the part. Nothing is served before Start.
func New(o Options, a *address.Address, s *storage.Storage, who *access.Access, e *extensions.Extensions) *Web {
	return &Web{o: o, address: a, storage: s, access: who, extensions: e}
}

// Start serves the API, and publishes where.
func (w *Web) Start(ctx context.Context, l *assembly.List) error {
	streams, err := w.connections()
	if err != nil {
		return err
	}
	l.Opened("connections to nodes", func() error { streams.Close(); return nil })
	api, err := w.api(ctx, streams, l)
	if err != nil {
		return err
	}
	if err := w.storage.Begun(ctx); err != nil {
		return err
	}
	w.API = api
	w.address.Inside.Serve(api)
	if w.address.Listener == nil {
		l.Opened("answers", func() error { endStreams(api, streams); api.Wait(); return nil })
	} else {
		handler, err := w.withPage(ctx, api, streams, l)
		if err != nil {
			return err
		}
		w.serve(w.withPlanes(handler), api, streams, l)
	}
	l.Opened("requests from inside", func() error { w.address.Inside.Close(); return nil })
	return w.keepEndpoints(l)
}

// withPlanes returns a handler that passes on the requests to other control planes.
func (w *Web) withPlanes(own http.Handler) http.Handler {
	if w.o.Planes == nil {
		return own
	}
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if planes.Asks(r.URL.Path) {
			w.o.Planes.ServeHTTP(out, r)
			return
		}
		own.ServeHTTP(out, r)
	})
}

// Announce is a part that is started last, and so ends first: then the server says for a while that it is not ready,
// before anything of it ends.
func (w *Web) Announce(_ context.Context, l *assembly.List) error {
	l.Opened("shutdown delay", func() error {
		w.ending.Store(true)
		if delay := w.o.ShutdownDelay; delay > 0 {
			w.o.Logger.Info("the server is about to end, and says that it is not ready", "delay", delay)
			time.Sleep(delay)
		}
		return nil
	})
	return nil
}

// keepEndpoints maintains the endpoints of the Service "kubernetes", and the lease by which others know this server.
func (w *Web) keepEndpoints(l *assembly.List) error {
	if !w.address.Advertised.IsValid() {
		return nil
	}
	r, err := endpoints.New(endpoints.Options{
		Address: w.address.Advertised, ServiceIP: w.o.ServiceAddress, Store: w.storage.Store, Config: w.address.Config(), Logger: w.o.Logger,
	})
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("identity of the server: %w", err)
	}
	i, err := endpoints.NewIdentity(w.address.Config(), host, w.address.Advertised.String(), w.o.Logger)
	if err != nil {
		return err
	}
	running := []func(context.Context) error{r.Run}
	if w.o.Features.Enabled(features.Identity) {
		running = append(running, i.Run)
	}
	l.Run("endpoints of the API", running...)
	return nil
}

// endStreams ends watches and other long-running requests.
func endStreams(api *apiserver.Server, streams *connections.Connections) {
	api.End()
	streams.End()
}
