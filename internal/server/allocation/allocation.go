// Package allocation allocates what must be unique among services: cluster IPs and node ports.
//
// Guarantees, for any number of API servers on one store:
//
//   - An address belongs to the service that its IPAddress object names. Creating that object claims the address, so
//     two services never get the same one.
//   - The allocated ports are one value in the store, changed by compare-and-swap, in Kubernetes' format (a
//     RangeAllocation).
//   - A change that fails releases what it allocated; a change that succeeds releases what the service no longer has. A
//     change of which nobody knows whether it has failed, because the store's answer was lost, releases nothing.
//   - [Services.Run] repairs what a crash or a lost answer leaves behind: a service whose IPAddress is missing gets it
//     back, and what belongs to no service is released after a while.
//
// A caller may not assume any order of allocated addresses or ports.
package allocation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// Options says what can be allocated. Registry and Ranges are required.
type Options struct {
	// Registry has the services and addresses.
	Registry *registry.Registry
	// Ranges are the ranges of cluster IPs: one, or one for each IP family. The first is of the cluster's default
	// family.
	Ranges []netip.Prefix
	// NodePorts is the range of node ports; 30000-32767 if zero.
	NodePorts PortRange
	// Every is how often Run repairs; three minutes if zero.
	Every time.Duration
	// Now returns the time for deciding whether an unused address is old; time.Now if nil.
	Now    func() time.Time
	Logger *slog.Logger
}

// ParseRanges parses one range of addresses, or two that are separated by a comma.
func ParseRanges(text string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for part := range strings.SplitSeq(text, ",") {
		p, err := netip.ParsePrefix(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("service range: %w", err)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

// PortRange are the ports from First to Last.
type PortRange struct{ First, Last int32 }

// String implements fmt.Stringer.
func (r PortRange) String() string { return fmt.Sprintf("%d-%d", r.First, r.Last) }

func (r PortRange) size() int { return int(r.Last-r.First) + 1 }

func (r PortRange) contains(port int32) bool { return port >= r.First && port <= r.Last }

// Services allocates addresses and ports for services.
type Services struct {
	options  Options
	families []corev1.IPFamily
	ports    *ports
	counted  counters
}

var (
	services     = schema.GroupResource{Resource: "services"}
	ipAddresses  = schema.GroupResource{Group: "networking.k8s.io", Resource: "ipaddresses"}
	serviceCIDRs = schema.GroupResource{Group: "networking.k8s.io", Resource: "servicecidrs"}
)

// New makes an allocator. Call Prepare before services are created.
func New(o Options) (*Services, error) {
	if o.NodePorts == (PortRange{}) {
		o.NodePorts = PortRange{30000, 32767}
	}
	if o.NodePorts.First < 1 || o.NodePorts.Last > 65535 || o.NodePorts.size() < 1 {
		return nil, fmt.Errorf("node ports %v are not a range of ports", o.NodePorts)
	}
	if o.Every == 0 {
		o.Every = 3 * time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Ranges = slices.Clone(o.Ranges)
	s := &Services{options: o, counted: newCounters()}
	for i, p := range o.Ranges {
		o.Ranges[i] = p.Masked()
		if !p.IsValid() {
			return nil, fmt.Errorf("service range %d is not a range of addresses", i+1)
		}
		if p.Addr().BitLen()-p.Bits() < 2 {
			return nil, fmt.Errorf("service range %v is too small", p)
		}
		s.families = append(s.families, familyOf(p.Addr()))
	}
	if len(s.families) == 0 || len(s.families) > 2 || len(s.families) == 2 && s.families[0] == s.families[1] {
		return nil, errors.New("services need one range of addresses, or one of each family")
	}
	s.ports = &ports{store: o.Registry.Store, within: o.NodePorts}
	return s, nil
}

func nothing() {}

// graceToRelease bounds how long a release may take. It continues after the client has disconnected.
const graceToRelease = 10 * time.Second

// Allocate implements registry.Allocator.
func (s *Services) Allocate(ctx context.Context, kind *resource.Kind, obj, old resource.Object, dryRun bool) (undo, done func(), err error) {
	if kind.GroupResource() != services {
		return nothing, nothing, nil
	}
	c := &change{Services: s, svc: obj.(*corev1.Service), dryRun: dryRun}
	if old != nil {
		c.old = old.(*corev1.Service)
	}
	before := c.svc.Spec.DeepCopy()
	undo = func() {
		c.undo(ctx)
		c.svc.Spec = *before
	}
	if err := c.run(ctx); err != nil {
		undo()
		return nil, nil, err
	}
	return undo, func() { c.done(ctx) }, nil
}

// Release implements registry.Allocator.
func (s *Services) Release(ctx context.Context, kind *resource.Kind, obj resource.Object) {
	if kind.GroupResource() != services {
		return
	}
	c := &change{Services: s, old: obj.(*corev1.Service), svc: &corev1.Service{}}
	c.svc.ObjectMeta = c.old.ObjectMeta
	c.svc.Spec.Type = corev1.ServiceTypeExternalName // a service that has no addresses and ports
	c.done(ctx)
}

// change is one change of one service, with what it has allocated.
type change struct {
	*Services
	svc, old *corev1.Service
	dryRun   bool

	addresses []netip.Addr
	nodePorts []int32
}

func (c *change) run(ctx context.Context) error {
	if err := c.completeFamilies(); err != nil {
		return err
	}
	if err := c.takeAddresses(ctx); err != nil {
		return err
	}
	return c.takePorts(ctx)
}

// undo releases what the change has allocated.
func (c *change) undo(ctx context.Context) {
	c.giveBack(ctx, c.addresses, c.nodePorts)
	c.addresses, c.nodePorts = nil, nil
}

// done releases what the service had and no longer has.
func (c *change) done(ctx context.Context) {
	if c.old == nil || c.dryRun {
		return
	}
	c.giveBack(ctx, missing(addressesOf(c.old), addressesOf(c.svc)), missing(portsOf(c.old), portsOf(c.svc)))
}

func (c *change) giveBack(ctx context.Context, addresses []netip.Addr, nodePorts []int32) {
	if len(addresses) == 0 && len(nodePorts) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), graceToRelease)
	defer cancel()
	for _, a := range addresses {
		if err := c.releaseAddress(ctx, a, c.svc); err != nil {
			c.options.Logger.Warn("address is not released yet", "address", a, "service", c.svc.Namespace+"/"+c.svc.Name, "error", err)
		}
	}
	if len(nodePorts) == 0 {
		return
	}
	if err := c.ports.release(ctx, nodePorts); err != nil {
		c.options.Logger.Warn("node ports are not released yet", "ports", nodePorts, "service", c.svc.Namespace+"/"+c.svc.Name, "error", err)
	}
}

func (c *change) invalid(errs ...*field.Error) error {
	return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), c.svc.Name, errs)
}

// missing returns the elements of had that are not in has, without duplicates.
func missing[T comparable](had, has []T) []T {
	keep := map[T]bool{}
	for _, v := range has {
		keep[v] = true
	}
	var out []T
	for _, v := range had {
		if !keep[v] {
			out, keep[v] = append(out, v), true
		}
	}
	return out
}

func (s *Services) storage(gr schema.GroupResource) (*registry.Storage, error) {
	r := s.options.Registry
	kind, ok := r.Catalogue.Kind(gr)
	if !ok {
		return nil, fmt.Errorf("the kind %v is not served", gr)
	}
	return r.Storage(kind)
}
