package allocation

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

const (
	// claimGrace is how long an address may wait for the service for which it was claimed.
	claimGrace = time.Minute
	// roundsToFree is in how many consecutive rounds a port must belong to no service before it is released: a service
	// that is being created takes its ports before it exists.
	roundsToFree = 3
)

// Prepare creates the cluster's ServiceCIDR, and repairs claims once.
func (s *Services) Prepare(ctx context.Context) error {
	if err := s.ensureCIDR(ctx); err != nil {
		return err
	}
	r := &repair{Services: s, unowned: map[int32]int{}}
	return r.round(ctx)
}

// Run repairs what crashes and lost answers have left behind, until ctx ends.
func (s *Services) Run(ctx context.Context) error {
	r := &repair{Services: s, unowned: map[int32]int{}}
	tick := time.NewTicker(s.options.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			if err := r.round(ctx); err != nil && ctx.Err() == nil {
				s.options.Logger.Warn("addresses and ports of services could not be checked", "error", err)
			}
		}
	}
}

// repair compares the addresses and ports of services with those that are recorded as taken.
type repair struct {
	*Services
	// unowned counts in how many consecutive rounds a taken port belonged to no service.
	unowned map[int32]int
}

// round lists the claims before the services. A service that is created in between does no harm; a service that is
// missing in the list would lose its claim.
func (r *repair) round(ctx context.Context) error {
	claims, err := readAll[*networkingv1.IPAddress](ctx, r.Services, ipAddresses)
	if err != nil {
		return err
	}
	taken, err := r.takenPorts(ctx)
	if err != nil {
		return err
	}
	all, err := readAll[*corev1.Service](ctx, r.Services, services)
	if err != nil {
		return err
	}
	if err := r.addresses(ctx, claims, all); err != nil {
		return err
	}
	return r.nodePorts(ctx, taken, all)
}

func readAll[P resource.Object](ctx context.Context, s *Services, gr schema.GroupResource) ([]P, error) {
	storage, err := s.storage(gr)
	if err != nil {
		return nil, err
	}
	list, err := storage.List(ctx, registry.ListQuery{})
	if err != nil {
		return nil, fmt.Errorf("list %v: %w", gr, err)
	}
	out := make([]P, 0, len(list.Objects))
	for _, o := range list.Objects {
		decoded, err := storage.Kind().Decode(ctx, o.Value(), o.Revision.String())
		if err != nil {
			s.options.Logger.Warn("object is not readable", "key", o.Key, "error", err)
			continue
		}
		out = append(out, decoded.(P))
	}
	return out, nil
}

func (r *repair) addresses(ctx context.Context, claims []*networkingv1.IPAddress, all []*corev1.Service) error {
	having := map[netip.Addr][]*corev1.Service{}
	for _, svc := range all {
		for _, a := range addressesOf(svc) {
			having[a] = append(having[a], svc)
		}
	}
	claimed := map[netip.Addr]*networkingv1.IPAddress{}
	for _, c := range claims {
		a, ok := parseAddress(c.Name)
		if !ok {
			continue
		}
		claimed[a] = c
		if err := r.releaseOrphan(ctx, a, c, len(having[a]) > 0); err != nil {
			return err
		}
	}
	for a, svcs := range having {
		if len(svcs) > 1 {
			r.options.Logger.Error("several services have one address", "address", a, "services", namesOf(svcs))
		}
		if err := r.restore(ctx, a, svcs, claimed[a]); err != nil {
			return err
		}
	}
	return nil
}

func namesOf(svcs []*corev1.Service) []string {
	var out []string
	for _, s := range svcs {
		out = append(out, s.Namespace+"/"+s.Name)
	}
	return out
}

// restore claims an address again for its service. If several services have it, the first gets it.
func (r *repair) restore(ctx context.Context, a netip.Addr, having []*corev1.Service, claim *networkingv1.IPAddress) error {
	if claim != nil {
		named := slices.ContainsFunc(having, func(s *corev1.Service) bool { return refersTo(claim.Spec.ParentRef, s) })
		if named || r.isRecentClaim(claim) {
			return nil
		}
		if err := r.deleteAddress(ctx, claim); err != nil {
			return err
		}
	}
	r.options.Logger.Info("address of a service is claimed again", "address", a, "service", namesOf(having[:1])[0])
	if err := r.createAddress(ctx, a, having[0]); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("claim %v again: %w", a, err)
	}
	return nil
}

func (r *repair) isRecentClaim(c *networkingv1.IPAddress) bool {
	return r.options.Now().Sub(c.CreationTimestamp.Time) < claimGrace
}

func (r *repair) releaseOrphan(ctx context.Context, a netip.Addr, c *networkingv1.IPAddress, had bool) error {
	if had || c.Labels[networkingv1.LabelManagedBy] != manager || r.isRecentClaim(c) {
		return nil
	}
	r.options.Logger.Info("address belongs to no service and is released", "address", a)
	return r.deleteAddress(ctx, c)
}

func (r *repair) takenPorts(ctx context.Context) (taken []int32, err error) {
	err = r.ports.refresh(ctx, func(s *portSet) { taken = s.all() })
	return taken, err
}

func (r *repair) nodePorts(ctx context.Context, taken []int32, all []*corev1.Service) error {
	owned := map[int32]bool{}
	for _, svc := range all {
		for _, p := range portsOf(svc) {
			owned[p] = true
		}
	}
	unowned := map[int32]int{}
	for _, p := range taken {
		if !owned[p] {
			unowned[p] = r.unowned[p] + 1
		}
	}
	r.unowned = unowned
	return r.ports.change(ctx, false, func(s *portSet) error {
		for p := range owned {
			s.set(p, 1)
		}
		for p, rounds := range unowned {
			if rounds >= roundsToFree {
				r.options.Logger.Info("node port belongs to no service and is released", "port", p)
				s.free(p)
			}
		}
		return nil
	})
}
