package endpointslice

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/controllers/internal/slice"
)

// draft is an existing slice with its planned changes.
type draft struct {
	slice   *discoveryv1.EndpointSlice
	keep    []discoveryv1.Endpoint
	changed bool
}

// planFor compares the existing slices with the endpoints that should exist.
func planFor(s *corev1.Service, existing []*discoveryv1.EndpointSlice, wanted map[groupKey]*group) slice.Plan {
	// One slice of each family is kept even if it is empty, so that clients can distinguish a Service without endpoints
	// from one that was not handled yet.
	for _, family := range families(s) {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(wanted)), func(k groupKey) bool { return k.family == family }) {
			key := groupKey{family: family}
			wanted[key] = &group{groupKey: key, list: []discoveryv1.EndpointPort{}}
		}
	}
	var p slice.Plan
	drafts := map[groupKey][]*draft{}
	for _, old := range existing {
		key := groupKey{old.AddressType, slice.PortsText(old.Ports)}
		if wanted[key] == nil || old.DeletionTimestamp != nil {
			if old.DeletionTimestamp == nil {
				p.Delete = append(p.Delete, old)
			}
			continue
		}
		drafts[key] = append(drafts[key], &draft{slice: old})
	}
	labels := labelsOf(s)
	for _, key := range slices.SortedFunc(maps.Keys(wanted), compareKeys) {
		planGroup(&p, s, labels, wanted[key], drafts[key])
	}
	reuse(&p, s)
	return p
}

// reuse updates slices that would be deleted instead of creating others. So a slice keeps its name when ports change,
// or when the first pods come or the last ones go. A slice becomes one that has all its endpoints if there is such a
// one: then no endpoint disappears in between.
func reuse(p *slice.Plan, s *corev1.Service) {
	reuseFor(p, s, func(fresh, old *discoveryv1.EndpointSlice) bool { return covers(fresh.Endpoints, old.Endpoints) })
	reuseFor(p, s, func(_, _ *discoveryv1.EndpointSlice) bool { return true })
}

func reuseFor(p *slice.Plan, s *corev1.Service, fits func(fresh, old *discoveryv1.EndpointSlice) bool) {
	p.Delete = slices.DeleteFunc(p.Delete, func(old *discoveryv1.EndpointSlice) bool {
		i := slices.IndexFunc(p.Create, func(fresh *discoveryv1.EndpointSlice) bool {
			return fresh.AddressType == old.AddressType && metav1.IsControlledBy(old, s) && fits(fresh, old)
		})
		if i < 0 {
			return false
		}
		now := old.DeepCopy()
		now.Labels, now.Ports, now.Endpoints = p.Create[i].Labels, p.Create[i].Ports, p.Create[i].Endpoints
		p.Update = append(p.Update, now)
		p.Create = slices.Delete(p.Create, i, i+1)
		return true
	})
}

// covers reports whether the pods of some are all among those of all.
func covers(all, some []discoveryv1.Endpoint) bool {
	pods := map[types.UID]bool{}
	for _, e := range all {
		pods[e.TargetRef.UID] = true
	}
	return !slices.ContainsFunc(some, func(e discoveryv1.Endpoint) bool { return e.TargetRef == nil || !pods[e.TargetRef.UID] })
}

func compareKeys(a, b groupKey) int {
	return cmp.Or(cmp.Compare(a.family, b.family), cmp.Compare(a.ports, b.ports))
}

// planGroup plans the slices of one group.
func planGroup(p *slice.Plan, s *corev1.Service, l labels.Set, g *group, drafts []*draft) {
	missing := maps.Clone(g.endpoints)
	for _, d := range drafts {
		d.take(missing)
	}
	fresh := place(drafts, slices.SortedFunc(maps.Values(missing), byUID))
	written := len(fresh) > 0
	for len(fresh) > 0 {
		n := min(len(fresh), maxEndpoints)
		p.Create = append(p.Create, newSlice(s, g, fresh[:n]))
		fresh = fresh[n:]
	}
	for _, d := range drafts {
		written = written || len(d.keep) > 0
	}
	for _, d := range drafts {
		if len(d.keep) == 0 && written {
			p.Delete = append(p.Delete, d.slice)
			continue
		}
		written = true // of several empty slices the first is kept
		d.settle(p, l)
	}
	if !written {
		p.Create = append(p.Create, newSlice(s, g, []discoveryv1.Endpoint{}))
	}
}

// settle plans the update of a slice, if anything changes.
func (d *draft) settle(p *slice.Plan, l labels.Set) {
	if !d.changed && labels.Equals(d.slice.Labels, l) {
		return
	}
	now := d.slice.DeepCopy()
	now.Labels, now.Endpoints = l, d.keep
	if now.Endpoints == nil {
		now.Endpoints = []discoveryv1.Endpoint{}
	}
	p.Update = append(p.Update, now)
}

// take keeps the slice's endpoints that are still wanted, with their current state, and removes them from missing.
func (d *draft) take(missing map[types.UID]discoveryv1.Endpoint) {
	for _, old := range d.slice.Endpoints {
		var uid types.UID
		if old.TargetRef != nil {
			uid = old.TargetRef.UID
		}
		now, ok := missing[uid]
		if !ok || len(d.keep) == maxEndpoints {
			d.changed = true // gone, or in an earlier slice as well
			continue
		}
		delete(missing, uid)
		d.keep = append(d.keep, now)
		d.changed = d.changed || !apiequality.Semantic.DeepEqual(old, now)
	}
}

// place puts new endpoints into slices: first into slices that are written anyway, then, if the rest fits into one
// slice, into the fullest one with enough room. It returns the endpoints that need new slices.
func place(drafts []*draft, fresh []discoveryv1.Endpoint) []discoveryv1.Endpoint {
	for _, d := range drafts {
		if d.changed && len(fresh) > 0 {
			fresh = d.add(fresh)
		}
	}
	if len(fresh) == 0 || len(fresh) >= maxEndpoints {
		return fresh
	}
	var best *draft
	for _, d := range drafts {
		if len(d.keep)+len(fresh) <= maxEndpoints && (best == nil || len(d.keep) > len(best.keep)) {
			best = d
		}
	}
	if best == nil {
		return fresh
	}
	return best.add(fresh)
}

func (d *draft) add(fresh []discoveryv1.Endpoint) []discoveryv1.Endpoint {
	n := min(len(fresh), maxEndpoints-len(d.keep))
	if n > 0 {
		d.keep = append(d.keep, fresh[:n]...)
		d.changed = true
	}
	return fresh[n:]
}
