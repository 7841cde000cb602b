package allocation

import (
	"context"
	"iter"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/registry"
)

// addressRange is one range of a ServiceCIDR.
type addressRange struct {
	netip.Prefix
	ready bool
}

// ranges returns those of all ServiceCIDRs, the cluster's own first.
func (s *Services) ranges(ctx context.Context, f registry.Freshness) ([]addressRange, error) {
	storage, err := s.storage(serviceCIDRs)
	if err != nil {
		return nil, err
	}
	list, err := storage.List(ctx, registry.ListQuery{Freshness: f})
	if err != nil {
		return nil, err
	}
	var out []addressRange
	for _, o := range list.Objects {
		decoded, err := storage.Kind().Decode(ctx, o.Value(), o.Revision.String())
		if err != nil {
			return nil, err
		}
		c := decoded.(*networkingv1.ServiceCIDR)
		var some []addressRange
		for _, text := range c.Spec.CIDRs {
			if p, err := netip.ParsePrefix(text); err == nil {
				some = append(some, addressRange{p.Masked(), gives(c)})
			}
		}
		if c.Name == defaultCIDR {
			out = append(some, out...)
		} else {
			out = append(out, some...)
		}
	}
	return out, nil
}

// gives reports whether new addresses may come from a ServiceCIDR. Without a condition they may.
func gives(c *networkingv1.ServiceCIDR) bool {
	if c.DeletionTimestamp != nil {
		return false
	}
	i := slices.IndexFunc(c.Status.Conditions, func(c metav1.Condition) bool { return c.Type == networkingv1.ServiceCIDRConditionReady })
	return i < 0 || c.Status.Conditions[i].Status == metav1.ConditionTrue
}

// cachedThenNewest are a read of the cache and, if that was not enough, one of the newest state.
var cachedThenNewest = []registry.Freshness{{Any: true}, {}}

func (s *Services) rangesOf(ctx context.Context, f corev1.IPFamily) ([]netip.Prefix, error) {
	for _, look := range cachedThenNewest {
		all, err := s.ranges(ctx, look)
		if err != nil {
			return nil, err
		}
		var out []netip.Prefix
		for _, r := range all {
			if r.ready && familyOf(r.Addr()) == f {
				out = append(out, r.Prefix)
			}
		}
		if len(out) > 0 {
			return out, nil
		}
	}
	return nil, errFull
}

// rangeOf returns the narrowest range that contains the address.
func (s *Services) rangeOf(ctx context.Context, a netip.Addr) (netip.Prefix, error) {
	err := errNoRange
	for _, look := range cachedThenNewest {
		all, listErr := s.ranges(ctx, look)
		if listErr != nil {
			return netip.Prefix{}, listErr
		}
		var best netip.Prefix
		for _, r := range all {
			switch {
			case !r.Contains(a):
			case !r.ready:
				err = errNotReady
			case !best.IsValid() || r.Bits() > best.Bits():
				best = r.Prefix
			}
		}
		if best.IsValid() {
			return best, nil
		}
	}
	return netip.Prefix{}, err
}

// usable excludes the network address and, for IPv4, the broadcast address.
func usable(p netip.Prefix, a netip.Addr) bool {
	first, n := usableOf(p)
	if n == 0 || a.Less(first) {
		return false
	}
	last, _ := netip.AddrFromSlice(new(big.Int).Add(number(first), new(big.Int).SetUint64(n-1)).FillBytes(make([]byte, a.BitLen()/8)))
	return !last.Less(a)
}

// usableOf returns the first usable address of a range and the number of usable addresses; of a huge range only a part
// is used.
func usableOf(p netip.Prefix) (first netip.Addr, n uint64) {
	n = uint64(1)<<min(p.Addr().BitLen()-p.Bits(), 62) - 1 // without the first address
	if p.Addr().Is4() && n > 0 {
		n-- // without the last address
	}
	return p.Masked().Addr().Next(), n
}

func number(a netip.Addr) *big.Int { return new(big.Int).SetBytes(a.AsSlice()) }

// The lowest addresses are used last, because users choose fixed addresses there.
const (
	lowest, highest = 16, 256
	lowShare        = 16
)

// candidates yields all usable addresses of a range, beginning at a random one.
func candidates(p netip.Prefix) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		first, n := usableOf(p)
		low := uint64(0)
		if n > lowest {
			low = min(max(lowest, n/lowShare), highest)
		}
		_ = sweep(first, low, n, yield) && sweep(first, 0, low, yield)
	}
}

// sweep yields the addresses from first+from up to first+to, beginning at a random one.
func sweep(first netip.Addr, from, to uint64, yield func(netip.Addr) bool) bool {
	if to <= from {
		return true
	}
	base, size := number(first), to-from
	start := rand.Uint64N(size)
	for i := range size {
		offset := from + (start+i)%size
		a, _ := netip.AddrFromSlice(new(big.Int).Add(base, new(big.Int).SetUint64(offset)).FillBytes(make([]byte, first.BitLen()/8)))
		if !yield(a) {
			return false
		}
	}
	return true
}
