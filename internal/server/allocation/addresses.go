package allocation

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/registry"
)

var (
	errTaken    = errors.New("provided IP is already allocated")
	errNoRange  = errors.New("the provided network does not match the current range")
	errFull     = errors.New("range is full")
	errNotReady = errors.New("allocator not ready")
)

// manager is the value of Kubernetes' label for addresses that were allocated by the API server.
const manager = "ipallocator.k8s.io"

// takeAddresses claims an address for each IP family that has none yet.
func (c *change) takeAddresses(ctx context.Context) error {
	spec := &c.svc.Spec
	if isExternalName(c.svc) || isHeadless(c.svc) {
		return nil
	}
	first := 0
	if c.old != nil && !isExternalName(c.old) {
		if isHeadless(c.old) || c.keepsFamilies() {
			return nil
		}
		first = len(c.old.Spec.ClusterIPs) // validation refuses changes of the earlier ones
	}
	if first < len(spec.IPFamilies) && len(spec.ClusterIPs) < len(spec.IPFamilies) {
		all := make([]string, len(spec.IPFamilies))
		copy(all, spec.ClusterIPs)
		spec.ClusterIPs = all
	}
	for i := first; i < len(spec.IPFamilies); i++ {
		if err := c.takeAddress(ctx, i); err != nil {
			return err
		}
	}
	if len(spec.ClusterIPs) > 0 {
		spec.ClusterIP = spec.ClusterIPs[0]
	}
	return nil
}

func (c *change) takeAddress(ctx context.Context, i int) error {
	spec := &c.svc.Spec
	if wanted := spec.ClusterIPs[i]; wanted != "" {
		if err := c.claimWanted(ctx, wanted); err != nil {
			return c.invalid(field.Invalid(field.NewPath("spec", "clusterIPs"), spec.ClusterIPs, fmt.Sprintf("failed to allocate IP %v: %v", wanted, err)))
		}
		return nil
	}
	a, err := c.claimAny(ctx, spec.IPFamilies[i])
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to allocate a serviceIP: %w", err))
	}
	spec.ClusterIPs[i] = a.String()
	return nil
}

func (c *change) claimWanted(ctx context.Context, wanted string) error {
	a, ok := parseAddress(wanted)
	if !ok {
		return fmt.Errorf("failed to parse service IP %q", wanted)
	}
	within, err := c.rangeOf(ctx, a)
	if err != nil {
		return err
	}
	if !usable(within, a) {
		return fmt.Errorf("the provided IP (%v) is not in the valid range. The range of valid IPs is %s", a, within)
	}
	err = c.claim(ctx, a)
	if !c.dryRun {
		c.counted.address(within, static, err)
	}
	return err
}

// claimAny tries addresses that are free according to the cache. It reports a full range only after it has read the
// newest state.
func (c *change) claimAny(ctx context.Context, f corev1.IPFamily) (netip.Addr, error) {
	ranges, err := c.rangesOf(ctx, f)
	if err != nil {
		return netip.Addr{}, err
	}
	storage, err := c.storage(ipAddresses)
	if err != nil {
		return netip.Addr{}, err
	}
	for _, look := range cachedThenNewest {
		if _, err := storage.List(ctx, registry.ListQuery{Freshness: look, Limit: 1}); err != nil {
			return netip.Addr{}, err
		}
		for _, within := range ranges {
			a, err := c.claimWithin(ctx, storage, within)
			if !errors.Is(err, errFull) {
				return a, err
			}
		}
	}
	return netip.Addr{}, errFull
}

func (c *change) claimWithin(ctx context.Context, storage *registry.Storage, within netip.Prefix) (netip.Addr, error) {
	for a := range candidates(within) {
		_, err := storage.Get(ctx, "", a.String(), registry.Freshness{Any: true})
		if err == nil {
			continue
		}
		if !apierrors.IsNotFound(err) {
			return netip.Addr{}, err
		}
		if err := c.claim(ctx, a); !errors.Is(err, errTaken) {
			if !c.dryRun {
				c.counted.address(within, dynamic, err)
			}
			return a, err
		}
	}
	return netip.Addr{}, errFull
}

// claim creates the IPAddress for the service, except in a dry run.
func (c *change) claim(ctx context.Context, a netip.Addr) error {
	if c.dryRun {
		return nil
	}
	err := c.createAddress(ctx, a, c.svc)
	switch {
	case err == nil:
		c.addresses = append(c.addresses, a)
		return nil
	case !apierrors.IsAlreadyExists(err):
		return err
	case isAPIService(c.svc) && c.owns(ctx, a):
		return nil
	}
	return errTaken
}

// isAPIService reports whether this is the Service "kubernetes". Every server creates it with the same address. If a
// server finds that address claimed, another server is about to create the service, or crashed before it did; so the
// server may continue.
func isAPIService(s *corev1.Service) bool {
	return s.Namespace == metav1.NamespaceDefault && s.Name == "kubernetes"
}

func (c *change) owns(ctx context.Context, a netip.Addr) bool {
	found, err := c.readAddress(ctx, a, registry.Freshness{})
	return err == nil && refersTo(found.Spec.ParentRef, c.svc)
}

func refersTo(r *networkingv1.ParentReference, s *corev1.Service) bool {
	return r != nil && r.Group == "" && r.Resource == services.Resource && r.Namespace == s.Namespace && r.Name == s.Name
}

func (s *Services) createAddress(ctx context.Context, a netip.Addr, svc *corev1.Service) error {
	storage, err := s.storage(ipAddresses)
	if err != nil {
		return err
	}
	o := &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{
			Name:   a.String(),
			Labels: map[string]string{networkingv1.LabelIPAddressFamily: string(familyOf(a)), networkingv1.LabelManagedBy: manager},
		},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: services.Resource, Namespace: svc.Namespace, Name: svc.Name}},
	}
	storage.Kind().Default(o)
	_, err = storage.Create(ctx, "", o, registry.WriteOptions{})
	return err
}

func (s *Services) readAddress(ctx context.Context, a netip.Addr, f registry.Freshness) (*networkingv1.IPAddress, error) {
	storage, err := s.storage(ipAddresses)
	if err != nil {
		return nil, err
	}
	o, err := storage.Get(ctx, "", a.String(), f)
	if err != nil {
		return nil, err
	}
	decoded, err := storage.Kind().Decode(ctx, o.Value(), o.Revision.String())
	if err != nil {
		return nil, err
	}
	return decoded.(*networkingv1.IPAddress), nil
}

// releaseAddress releases an address if it belongs to the service.
func (s *Services) releaseAddress(ctx context.Context, a netip.Addr, svc *corev1.Service) error {
	found, err := s.readAddress(ctx, a, registry.Freshness{})
	if err != nil || !refersTo(found.Spec.ParentRef, svc) {
		return ignoreNotFound(err)
	}
	return s.deleteAddress(ctx, found)
}

// deleteAddress deletes exactly this IPAddress, not a later one with the same name.
func (s *Services) deleteAddress(ctx context.Context, a *networkingv1.IPAddress) error {
	storage, err := s.storage(ipAddresses)
	if err != nil {
		return err
	}
	_, err = storage.Delete(ctx, "", a.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &a.UID}}, registry.WriteOptions{})
	return ignoreNotFound(err)
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
