package aggregation

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/apiserver"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/services"
)

// Options say what is aggregated. Registry is required.
type Options struct {
	Registry *registry.Registry
	// CatchUp makes known all custom resources that were defined before it is called.
	CatchUp func(context.Context) error
	// Unreadable returns why definitions of custom resources cannot be read, by their names. The APIServices of their
	// groups are left alone.
	Unreadable func() map[string]error
	// Certificate is that of the front proxy, as of now.
	Certificate func() *tls.Certificate
	// Backends answer for group versions in this process, unless an APIService names a service for them.
	Backends map[schema.GroupVersion]Backend
	// Dial opens connections to the endpoints of services; nil goes to the network.
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	Logger *slog.Logger
}

// Backend answers for a group version in this process. It finds the caller in the context of a request, with
// auth.UserFrom.
type Backend struct {
	http.Handler
	// Priority is that of its APIService. The zero value is that of groups which are not Kubernetes' own.
	Priority resource.Priority
}

// Aggregator knows who answers for which group version.
type Aggregator struct {
	o        Options
	log      *slog.Logger
	via      string
	services *services.Resolver

	now atomic.Pointer[snapshot]

	mu      sync.Mutex // guards what follows
	learned map[schema.GroupVersion]*discoveryv2.APIVersionDiscovery
	version int // counts changes of learned
	// documents are where others describe themselves.
	documents map[string]string
	checkers  map[string]*checker
	running   sync.WaitGroup

	changed chan struct{} // says that there may be another snapshot
}

// New makes an aggregator. Run keeps it up to date.
func New(o Options) *Aggregator {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	a := &Aggregator{
		o: o, log: o.Logger, via: newVia(), services: services.NewResolver(o.Registry),
		learned: map[schema.GroupVersion]*discoveryv2.APIVersionDiscovery{}, documents: map[string]string{}, checkers: map[string]*checker{},
		changed: make(chan struct{}, 1),
	}
	a.now.Store(a.snapshotOf(nil, nil))
	return a
}

// Handler answers for a group version; nil says that it is served by the API server itself.
func (a *Aggregator) Handler(gv schema.GroupVersion) http.Handler {
	if h, ok := a.now.Load().handlers[gv]; ok {
		return h
	}
	return nil
}

// Groups are all group versions that others answer for, and a number that changes when they do.
func (a *Aggregator) Groups() (version int, all []apiserver.DelegatedGroup) {
	s := a.now.Load()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, g := range s.groups {
		if found := a.learned[g.GroupVersion]; found != nil {
			g.Discovery = *found
		}
		if !s.available[g.GroupVersion] {
			g.Discovery.Freshness = discoveryv2.DiscoveryFreshnessStale
		}
		all = append(all, g)
	}
	return s.version + a.version, all
}

// learn notes what a service says of itself.
func (a *Aggregator) learn(gv schema.GroupVersion, d *discoveryv2.APIVersionDiscovery) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known := a.learned[gv]; known != nil && same(known, d) {
		return
	}
	a.learned[gv] = d
	a.version++
}

// Run follows the APIServices until the context ends.
func (a *Aggregator) Run(ctx context.Context) error {
	defer a.running.Wait()
	return a.follow(ctx)
}
