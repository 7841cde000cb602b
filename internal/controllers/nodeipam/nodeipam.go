// Package nodeipam assigns each node a pod address range.
//
// Guarantees: a node without spec.podCIDRs gets one range of each IP family, which no other node has. A node with
// ranges keeps them. When no range is left, the node gets none and an event says so; it is retried when a node is
// deleted.
//
// The order in which free ranges are used is not defined.
package nodeipam

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/internal/meter"
	"github.com/millrace/millrace/loop"
)

const name = "node-ipam-controller"

// Options configure the ranges. Without any the loop does not run.
type Options struct {
	// ClusterCIDRs are the pod ranges of the cluster, one for each IP family.
	ClusterCIDRs []netip.Prefix
	// MaskSize4 and MaskSize6 are the prefix lengths of a node's ranges: 24 and 64 by default.
	MaskSize4, MaskSize6 int
	// Taken are ranges from which no node gets one, such as those of services.
	Taken []netip.Prefix
	// Metrics counts ranges.
	Metrics *Metrics
}

// Usage says how many ranges nodes have, and how many there are.
type Usage struct{ Used, All float64 }

// Entry is this loop among the others.
func (o Options) Entry() loop.Entry {
	return loop.Entry{
		Name: name, Aliases: []string{"nodeipam"}, Source: "cidrAllocator",
		New: func(c *loop.Clients) (loop.Runner, error) {
			if len(o.ClusterCIDRs) == 0 {
				return nil, nil
			}
			return New(c, o)
		},
	}
}

type controller struct {
	metrics  *Metrics
	kube     kubernetes.Interface
	recorder loop.Recorder
	nodes    *informer.Shared[*corev1.Node]
	pools    []pool
	taken    []netip.Prefix

	mu    sync.Mutex
	given map[string][]string // guarded by mu: assigned ranges by node, which the cache may not show yet
}

// pool has the ranges of one family.
type pool struct {
	all  netip.Prefix
	bits int
}

// New returns the loop. Its keys are nodes.
func New(c *loop.Clients, o Options) (loop.Runner, error) {
	r := &controller{
		metrics: o.Metrics, kube: c.Kube, recorder: c.Recorder, given: map[string][]string{}, taken: o.Taken,
		nodes: loop.Informer(c, informer.For(c.Kube.CoreV1().Nodes())),
	}
	if r.metrics == nil {
		r.metrics = NewMetrics(meter.New(nil))
	}
	for _, all := range o.ClusterCIDRs {
		bits, standard := o.MaskSize4, 24
		if all.Addr().Is6() {
			bits, standard = o.MaskSize6, 64
		}
		if bits == 0 {
			bits = max(standard, all.Bits())
		}
		if bits < all.Bits() || bits > all.Addr().BitLen() {
			return nil, fmt.Errorf("nodes cannot have ranges of /%d in %s", bits, all)
		}
		r.pools = append(r.pools, pool{all.Masked(), bits})
	}
	r.metrics.Count(r.usage)
	return &loop.Loop{Name: name, Clients: c, Sync: r.sync, Watches: []loop.Watch{loop.Changes(r.nodes, r.woken)}}, nil
}

// woken returns the nodes that a change concerns: when one is deleted, all nodes without ranges.
func (r *controller) woken(before, after *corev1.Node) []loop.Key {
	if after != nil {
		if len(after.Spec.PodCIDRs) > 0 {
			return nil
		}
		return []loop.Key{{Name: after.Name}}
	}
	for p := range r.poolsOf(before) {
		r.metrics.Released(p.all)
	}
	var all []loop.Key
	for n := range r.nodes.List() {
		if len(n.Spec.PodCIDRs) == 0 {
			all = append(all, loop.Key{Name: n.Name})
		}
	}
	return all
}

func (r *controller) sync(ctx context.Context, key loop.Key) (loop.Result, error) {
	n, ok := r.nodes.Lookup(key)
	if !ok || len(n.Spec.PodCIDRs) > 0 {
		return loop.Result{}, nil
	}
	ranges, err := r.take(n.Name)
	if err != nil {
		r.recorder.Eventf(n, corev1.EventTypeNormal, "CIDRNotAvailable", "Node %s status is now: CIDRNotAvailable", n.Name)
		return loop.Result{}, loop.Terminal(err)
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"podCIDR": ranges[0], "podCIDRs": ranges}})
	if err != nil {
		return loop.Result{}, err
	}
	_, err = r.kube.CoreV1().Nodes().Patch(ctx, n.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	return loop.Result{}, err
}

// take assigns ranges to a node. Ranges that were assigned before and not written may be assigned again.
func (r *controller) take(node string) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	used := r.usedLocked(node)
	var out []string
	for _, p := range r.pools {
		free, looked, ok := p.free(used)
		if !ok {
			return nil, fmt.Errorf("no range of /%d is left in %s for node %s", p.bits, p.all, node)
		}
		r.metrics.Assigned(p.all, looked)
		out = append(out, free.String())
	}
	r.given[node] = out
	return out, nil
}

// usedLocked returns the ranges of all other nodes: those in the cache, and those just assigned. It adds those that no
// node gets.
func (r *controller) usedLocked(node string) map[netip.Prefix]bool {
	used := map[netip.Prefix]bool{}
	for _, p := range r.taken {
		used[p.Masked()] = true
	}
	for n := range r.nodes.List() {
		for _, text := range n.Spec.PodCIDRs {
			if p, err := netip.ParsePrefix(text); err == nil {
				used[p.Masked()] = true
			}
		}
	}
	for name, texts := range r.given {
		if !r.nodes.Has(loop.Key{Name: name}) {
			delete(r.given, name)
			continue
		}
		for _, text := range texts {
			if name != node {
				used[netip.MustParsePrefix(text)] = true
			}
		}
	}
	return used
}

// poolsOf ranges over the pools from which a node has a range.
func (r *controller) poolsOf(n *corev1.Node) iter.Seq[pool] {
	return func(yield func(pool) bool) {
		for _, text := range n.Spec.PodCIDRs {
			has, err := netip.ParsePrefix(text)
			for _, p := range r.pools {
				if err == nil && p.all.Contains(has.Addr()) && !yield(p) {
					return
				}
			}
		}
	}
}

// usage counts the ranges of each pool.
func (r *controller) usage() map[netip.Prefix]Usage {
	all := map[netip.Prefix]Usage{}
	for _, p := range r.pools {
		all[p.all] = Usage{All: math.Exp2(float64(p.bits - p.all.Bits()))}
	}
	for n := range r.nodes.List() {
		for p := range r.poolsOf(n) {
			u := all[p.all]
			u.Used++
			all[p.all] = u
		}
	}
	return all
}

// free returns the first range that overlaps with no used one, and how many ranges were looked at. It goes from one
// used range to the next: a used range may be as wide as the pool, which may have more ranges than anybody can count.
func (p pool) free(used map[netip.Prefix]bool) (free netip.Prefix, looked int, ok bool) {
	sorted := slices.SortedFunc(maps.Keys(used), func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	at, more := netip.PrefixFrom(p.all.Addr(), p.bits), true
	for _, u := range sorted {
		if !more || !u.Overlaps(at) {
			if more && at.Addr().Less(u.Addr()) {
				break
			}
			continue
		}
		looked++
		if u.Bits() < at.Bits() {
			at, more = after(u)
			at = netip.PrefixFrom(at.Addr(), p.bits)
		} else {
			at, more = after(at)
		}
	}
	if !more || !p.all.Contains(at.Addr()) {
		return netip.Prefix{}, looked, false
	}
	return at, looked + 1, true
}

// after returns the next range of the same size.
func after(p netip.Prefix) (netip.Prefix, bool) {
	bytes := p.Addr().AsSlice()
	for bit := p.Bits() - 1; bit >= 0; bit-- {
		mask := byte(0x80 >> (bit % 8))
		bytes[bit/8] ^= mask
		if bytes[bit/8]&mask != 0 {
			a, _ := netip.AddrFromSlice(bytes)
			return netip.PrefixFrom(a, p.Bits()), true
		}
	}
	return p, false
}
