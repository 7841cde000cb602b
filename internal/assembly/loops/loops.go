// Package loops is what brings the cluster to its desired state: the controllers and the scheduler. They reach the
// server only through the API.
package loops

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/assembly"
	"github.com/millrace/millrace/internal/assembly/access"
	"github.com/millrace/millrace/internal/assembly/address"
	"github.com/millrace/millrace/internal/assembly/identity"
	"github.com/millrace/millrace/internal/controllers"
	signing "github.com/millrace/millrace/internal/controllers/certificates"
	loopmetrics "github.com/millrace/millrace/internal/controllers/prommetrics"
	"github.com/millrace/millrace/internal/controllers/serviceaccount"
	"github.com/millrace/millrace/internal/scheduler"
	schedulermetrics "github.com/millrace/millrace/internal/scheduler/prommetrics"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/loop"
	requestmetrics "github.com/millrace/millrace/loop/prommetrics"
	"github.com/millrace/millrace/queue"
	"github.com/millrace/millrace/queue/prommetrics"
)

// KubeletPort is the kubelets' port.
const KubeletPort = 10250

// Options select the loops.
type Options struct {
	// Controllers selects the controllers, as kube-controller-manager's --controllers does. An empty list runs none.
	Controllers []string
	NoScheduler bool
	// PodRanges are the addresses of pods.
	PodRanges []netip.Prefix
	// OwnNodes says that there are nodes in this process, on which volumes can be made.
	OwnNodes bool

	// Metrics gets the metrics of the loops.
	Metrics *prometheus.Registry
	Logger  *slog.Logger
}

// MakesAccounts reports whether a selection of controllers makes default service accounts.
func MakesAccounts(selection []string) bool {
	selected, err := loop.Select(controllers.All(controllers.Options{}), selection)
	return err == nil && slices.ContainsFunc(selected, func(e loop.Entry) bool { return e.Name == serviceaccount.Entry.Name })
}

// Loops is the part. The nodes of this process share its clients and their informers, so everything runs together: see
// Run.
type Loops struct {
	o       Options
	address *address.Address
	access  *access.Access
	shared  *loop.Clients // nil until something needs them
	queues  *queues       // exists with shared
	runners []loop.Runner
}

// New makes the part. Nothing is asked of the API before Run.
func New(o Options, a *address.Address, who *access.Access) *Loops {
	return &Loops{o: o, address: a, access: who}
}

// Start makes the loops that were selected. They do not run yet.
func (p *Loops) Start(context.Context, *assembly.List) error {
	if len(p.o.Controllers) > 0 {
		if err := p.addControllers(); err != nil {
			return err
		}
	}
	if p.o.NoScheduler {
		return nil
	}
	clients, err := p.Clients()
	if err != nil {
		return err
	}
	o := scheduler.For(clients)
	if o.Metrics, err = schedulermetrics.New(p.o.Metrics); err != nil {
		return err
	}
	p.Add(identity.As(identity.Scheduler, scheduler.New(o)))
	return nil
}

// Add has more run together with the loops. It must be called before Run.
func (p *Loops) Add(more ...loop.Runner) { p.runners = append(p.runners, more...) }

// Run is the part that runs the loops and what was added to them, if there is anything.
func (p *Loops) Run(_ context.Context, l *assembly.List) error {
	if p.shared == nil {
		return nil
	}
	// What the loops share reads and writes events as the controller manager.
	l.Run("loops", func(ctx context.Context) error {
		return loop.Run(auth.WithUser(ctx, identity.Controllers), p.shared, p.runners...)
	})
	return nil
}

// Clients returns the clients of all loops, which are measured.
func (p *Loops) Clients() (*loop.Clients, error) {
	if p.shared != nil {
		return p.shared, nil
	}
	config := p.address.Config()
	config.Transport = identity.Otherwise{User: identity.Controllers, Next: config.Transport} // discovery makes contexts of its own, without a user
	requests, err := requestmetrics.NewRequests(p.o.Metrics)
	if err != nil {
		return nil, err
	}
	requests.Measure(config)
	clients, err := loop.NewClients(config, p.o.Logger)
	if err != nil {
		return nil, err
	}
	measured, err := prommetrics.New(p.o.Metrics)
	if err != nil {
		return nil, err
	}
	p.queues = &queues{Metrics: measured, all: map[string]func() queue.State{}}
	clients.Metrics = p.queues
	if p.address.Alone() {
		clients.SetAlone()
	}
	p.shared = clients
	return clients, nil
}

// addControllers adds the selected controllers.
func (p *Loops) addControllers() error {
	clients, err := p.Clients()
	if err != nil {
		return err
	}
	authority := p.access.Keys().Authority
	o := controllers.Options{RootCA: authority.CertPEM, Signing: signing.Signing{Authority: func() (signing.Authority, error) {
		return signing.Authority{Certificate: authority.Certificate, Key: authority.Key}, nil
	}}}
	o.Making.Key = p.access.Signing
	if err := loopmetrics.Measure(&o, p.o.Metrics); err != nil {
		return err
	}
	if p.o.OwnNodes {
		o.Volumes.Class = "standard"
	}
	o.Balancers.Reserved = []int32{int32(p.address.Port()), KubeletPort}
	o.Ranges.ClusterCIDRs = p.o.PodRanges
	group := &loop.Group{Clients: clients.As(controllers.Program), Entries: controllers.All(o), Select: p.o.Controllers, Identify: asAccount}
	if group.Runs, err = loopmetrics.Runs(p.o.Metrics, controllers.Program); err != nil {
		return err
	}
	p.Add(group)
	_, err = loop.Select(group.Entries, group.Select)
	return err
}

// asAccount returns the context of a loop, which uses its own service account, if it has one.
func asAccount(ctx context.Context, name string) context.Context {
	return identity.AsAccount(ctx, controllers.Account(name))
}
