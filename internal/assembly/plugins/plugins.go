// Package plugins is what takes part in each write: the admission plugins, among them those that objects of the cluster
// configure, and the allocator of addresses and ports for services. It plugs them into the registry before anything is
// written.
package plugins

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/assembly"
	"github.com/millrace/millrace/internal/assembly/access"
	"github.com/millrace/millrace/internal/assembly/address"
	"github.com/millrace/millrace/internal/assembly/storage"
	"github.com/millrace/millrace/internal/server/admission"
	"github.com/millrace/millrace/internal/server/allocation"
	"github.com/millrace/millrace/internal/server/custom"
	"github.com/millrace/millrace/internal/server/limits"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/webhook"
)

// Options configure the plugins.
type Options struct {
	// Enable and Disable change the set of default plugins. ConfigFile is an AdmissionConfiguration.
	Enable, Disable []string
	ConfigFile      string
	// NotReadySeconds and UnreachableSeconds are for how long a pod stays on a node that is not ready or cannot be
	// reached.
	NotReadySeconds, UnreachableSeconds *int64
	// ServiceAccounts says that somebody makes the default service accounts, so that pods may be required to have one.
	ServiceAccounts bool
	// ServiceRanges are the addresses of services, and NodePorts their node ports.
	ServiceRanges []netip.Prefix
	NodePorts     allocation.PortRange
	// MostObjects and MostBytes bound what all objects take together. Zero is no limit.
	MostObjects int
	MostBytes   int64
	// Inward says that nobody outside is called.
	Inward bool

	// Metrics gets the metrics of admission.
	Metrics *prometheus.Registry
	Logger  *slog.Logger
}

// Plugins is the part. Its fields exist from Start on.
type Plugins struct {
	o       Options
	address *address.Address
	storage *storage.Storage
	access  *access.Access
	// Webhooks calls webhooks.
	Webhooks *webhook.Client
	// Definitions serves custom resources. It has seen none yet.
	Definitions *custom.Definitions
}

// New makes the part. Nothing is read before Start.
func New(o Options, a *address.Address, s *storage.Storage, who *access.Access) *Plugins {
	return &Plugins{o: o, address: a, storage: s, access: who}
}

// Start plugs everything in, and makes sure that each address and port that is used is known.
func (p *Plugins) Start(ctx context.Context, l *assembly.List) error {
	reg := p.storage.Registry
	alloc, err := allocation.New(allocation.Options{Registry: reg, Ranges: p.o.ServiceRanges, NodePorts: p.o.NodePorts, Logger: p.o.Logger})
	if err != nil {
		return err
	}
	p.o.Metrics.MustRegister(alloc)
	steps, err := p.admission(l)
	if err != nil {
		return err
	}
	p.Definitions, err = custom.New(custom.Options{Registry: reg, Fresh: reg.Cache.Fresh, Webhooks: p.Webhooks, Logger: p.o.Logger})
	if err != nil {
		return err
	}
	if p.o.MostObjects > 0 || p.o.MostBytes > 0 {
		steps = append(steps, limits.New(limits.Options{
			Objects: p.o.MostObjects, Bytes: p.o.MostBytes, Count: p.storage.Objects, Size: p.storage.Store.Size,
		}))
	}
	reg.Admission, reg.Allocate = append(steps, p.Definitions.Admission()), alloc
	if err := alloc.Prepare(ctx); err != nil {
		return fmt.Errorf("prepare the addresses of services: %w", err)
	}
	l.Run("addresses and ports of services", alloc.Run)
	return nil
}

// admission returns the admission plugins in their order.
func (p *Plugins) admission(l *assembly.List) ([]registry.Admission, error) {
	var configuration admission.Configuration
	if p.o.ConfigFile != "" {
		var err error
		if configuration, err = admission.ReadConfiguration(p.o.ConfigFile); err != nil {
			return nil, err
		}
	}
	configured, err := p.configured(configuration, l)
	if err != nil {
		return nil, err
	}
	return admission.New(admission.Options{
		Registry: p.storage.Registry, ServiceAccounts: p.o.ServiceAccounts, Authorize: p.access.Permissions, Enable: p.o.Enable, Disable: p.o.Disable,
		NotReadySeconds: p.o.NotReadySeconds, UnreachableSeconds: p.o.UnreachableSeconds,
		Configuration: configuration, Extensions: append(configured, p.access.Permissions.Admission()...),
	})
}
