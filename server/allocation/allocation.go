// Package allocation hands out what only one service may have: its addresses and its ports on the nodes.
//
// What is guaranteed, among any number of API servers on one store:
//
//   - An address belongs to the service that its IPAddress object names. Whoever creates that object first has it, so
//     no two services are ever given the same one.
//   - The ports that are taken are one value in the store, changed by compare-and-swap, in the form that Kubernetes
//     gives it (a RangeAllocation).
//   - A change that fails gives back what it took; a change that succeeds gives back what the service has no longer.
//   - What a crash between the two leaves behind is found by [Services.Run]: a service without its IPAddress gets it
//     back, what belongs to no service is released after a while.
//
// A caller may not assume that addresses or ports are given out in an order.
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

	"github.com/millrace/millrace/server/registry"
	"github.com/millrace/millrace/server/resource"
)

// Options say what can be handed out. Registry and Ranges are required.
type Options struct {
	// Registry is where services and addresses are kept. It is made with the allocator in it, hence the func.
	Registry func() *registry.Registry
	// Ranges are where addresses come from: one, or one of each family. The first is the cluster's default family.
	Ranges []netip.Prefix
	// NodePorts are the ports of nodes; 30000-32767 if zero.
	NodePorts PortRange
	// Every is how often what was lost is looked for; three minutes if zero.
	Every time.Duration
	// Now is the time by which an address that belongs to nobody is old; time.Now if nil.
	Now    func() time.Time
	Logger *slog.Logger
}

// ParseRanges reads one range of addresses, or two with a comma between.
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

// Services completes services.
type Services struct {
	options  Options
	families []corev1.IPFamily
	ports    *ports
}

var (
	services     = schema.GroupResource{Resource: "services"}
	ipAddresses  = schema.GroupResource{Group: "networking.k8s.io", Resource: "ipaddresses"}
	serviceCIDRs = schema.GroupResource{Group: "networking.k8s.io", Resource: "servicecidrs"}
)

// New makes an allocator. Prepare must be called before services are created.
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
	s := &Services{options: o}
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
	s.ports = &ports{store: func() portStore { return o.Registry().Store }, within: o.NodePorts}
	return s, nil
}

func nothing() {}

// graceToRelease bounds how long giving something back may take: it goes on when the caller has left.
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
	c.svc.Spec.Type = corev1.ServiceTypeExternalName // a service that has nothing
	c.done(ctx)
}

// change is one change of one service, and what it takes.
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

// undo gives back what the change took.
func (c *change) undo(ctx context.Context) {
	c.giveBack(ctx, c.addresses, c.nodePorts)
	c.addresses, c.nodePorts = nil, nil
}

// done gives back what the service had and has no longer.
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

// missing are those of had that has does not have, each once.
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
	r := s.options.Registry()
	kind, ok := r.Catalogue.Kind(gr)
	if !ok {
		return nil, fmt.Errorf("there is no kind %v", gr)
	}
	return r.Storage(kind)
}
