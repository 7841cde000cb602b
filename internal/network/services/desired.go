//go:build linux

package services

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/millrace/millrace/informer"
)

// desiredTables is what the tables should contain: the rows of each service, and of the node. No two services have a
// row with the same key: the later service waits until the key is free.
type desiredTables struct {
	services map[informer.Key]*compiled
	owners   map[rowKey]informer.Key
	waiting  map[rowKey]map[informer.Key]struct{}
	chains   map[bool]map[chain]int // by family: the number of rows for each chain that chooses an endpoint
	shares   map[rowKey]int         // how many services have a row that can be shared
	node     map[rowKey]struct{}    // the addresses of the node
	unserved unserved               // the sum over all services
}

func newDesiredTables() *desiredTables {
	return &desiredTables{
		services: map[informer.Key]*compiled{}, owners: map[rowKey]informer.Key{}, waiting: map[rowKey]map[informer.Key]struct{}{},
		chains: map[bool]map[chain]int{false: {}, true: {}}, shares: map[rowKey]int{}, node: map[rowKey]struct{}{},
	}
}

// claimed reports whether two services may need the same key. The rows of endpoints belong to the service with the
// cluster IP.
func (r rowKey) claimed() bool { return r.set != endpointsMap && r.set != affine && !r.shared() }

// shared reports whether several services may have the same row.
func (r rowKey) shared() bool { return r.set == hairpin }

// difference is what must be written.
type difference struct {
	removed, added []row
}

// put sets the rows of a service. It returns what must be written, and the services that can have rows now for which
// they have waited.
func (l *desiredTables) put(key informer.Key, c compiled) (d difference, freed []informer.Key) {
	if !l.addressesFree(key, c.rows) {
		c = compiled{}
	}
	before := map[rowKey]content{}
	if old := l.services[key]; old != nil {
		for _, r := range old.rows {
			before[r.rowKey] = r.content
		}
	}
	kept := c.rows[:0]
	for _, r := range c.rows {
		old, had := before[r.rowKey]
		if !l.claim(key, r.rowKey) {
			continue
		}
		kept = append(kept, r)
		delete(before, r.rowKey)
		if had && old == r.content {
			continue
		}
		if had {
			l.removeRow(&d, row{r.rowKey, old})
		}
		l.addRow(&d, r)
	}
	c.rows = slices.Clip(kept)
	for p, old := range before {
		l.removeRow(&d, row{p, old})
		freed = append(freed, l.release(key, p)...)
	}
	if old := l.services[key]; old != nil {
		l.unserved.add(old.unserved, -1)
	}
	if len(c.rows) == 0 && c.health.port == 0 {
		delete(l.services, key)
	} else {
		l.unserved.add(c.unserved, 1)
		l.services[key] = &c
	}
	return d, freed
}

// addressesFree reports whether no other service has one of the cluster IPs. When a cluster IP was reused, the deletion
// of its old service may arrive after the new service.
func (l *desiredTables) addressesFree(key informer.Key, rows []row) bool {
	free := true
	for _, r := range rows {
		if r.set == clusterIPs && !l.claim(key, r.rowKey) {
			free = false
		}
	}
	return free
}

// addRow and removeRow record that a row is added or removed.
func (l *desiredTables) addRow(d *difference, r row) {
	if r.shared() {
		if l.shares[r.rowKey]++; l.shares[r.rowKey] > 1 {
			return
		}
	}
	d.added = append(d.added, r)
	if r.chain.chooses() {
		l.chains[r.six][r.chain]++
	}
}

func (l *desiredTables) removeRow(d *difference, r row) {
	if r.shared() {
		if l.shares[r.rowKey]--; l.shares[r.rowKey] > 0 {
			return
		}
		delete(l.shares, r.rowKey)
	}
	d.removed = append(d.removed, r)
	if of := l.chains[r.six]; r.chain.chooses() {
		if of[r.chain]--; of[r.chain] == 0 {
			delete(of, r.chain)
		}
	}
}

func (l *desiredTables) claim(key informer.Key, p rowKey) bool {
	if !p.claimed() {
		return true
	}
	owner, taken := l.owners[p]
	if taken && owner != key {
		if l.waiting[p] == nil {
			l.waiting[p] = map[informer.Key]struct{}{}
		}
		l.waiting[p][key] = struct{}{}
		return false
	}
	l.owners[p] = key
	return true
}

func (l *desiredTables) release(key informer.Key, p rowKey) []informer.Key {
	if l.owners[p] != key {
		return nil
	}
	delete(l.owners, p)
	waiting := slices.Collect(maps.Keys(l.waiting[p]))
	delete(l.waiting, p)
	return waiting
}

// putNode sets the node's addresses on which node ports are open.
func (l *desiredTables) putNode(addresses []netip.Addr) difference {
	wanted := map[rowKey]struct{}{}
	for _, a := range addresses {
		wanted[rowKey{six: !a.Is4(), set: nodeIPs, key: string(a.AsSlice())}] = struct{}{}
	}
	var d difference
	for p := range wanted {
		if _, had := l.node[p]; !had {
			d.added = append(d.added, row{rowKey: p})
		}
	}
	for p := range l.node {
		if _, stays := wanted[p]; !stays {
			d.removed = append(d.removed, row{rowKey: p})
		}
	}
	l.node = wanted
	return d
}

// all ranges over all rows of a family.
func (l *desiredTables) all(six bool) func(yield func(row) bool) {
	return func(yield func(row) bool) {
		for p := range l.node {
			if p.six == six && !yield(row{rowKey: p}) {
				return
			}
		}
		for p := range l.shares {
			if p.six == six && !yield(row{rowKey: p}) {
				return
			}
		}
		for _, c := range l.services {
			for _, r := range c.rows {
				if r.six == six && !r.shared() && !yield(r) {
					return
				}
			}
		}
	}
}

// endpointNumbers returns the last numbers of a service's endpoints.
func (l *desiredTables) endpointNumbers(key informer.Key) endpointNumbers {
	if c := l.services[key]; c != nil {
		return c.endpointNumbers
	}
	return nil
}
