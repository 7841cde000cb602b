//go:build linux

package services

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/millrace/millrace/informer"
)

// ledger is what the tables should hold: the rows of each service, and of the node. No two services have a row in one place: the
// one that came later waits until the place is free.
type ledger struct {
	services map[informer.Key]*compiled
	owners   map[place]informer.Key
	waiting  map[place]map[informer.Key]struct{}
	chains   map[bool]map[chain]int // by family: how many rows lead to each chain that chooses
	shares   map[place]int          // how many services have a row that services share
	node     map[place]struct{}     // the addresses of the node
}

func newLedger() *ledger {
	return &ledger{
		services: map[informer.Key]*compiled{}, owners: map[place]informer.Key{}, waiting: map[place]map[informer.Key]struct{}{},
		chains: map[bool]map[chain]int{false: {}, true: {}}, shares: map[place]int{}, node: map[place]struct{}{},
	}
}

// claimed tells whether two services can want a row's place. The endpoints belong to whom the cluster address belongs to.
func (p place) claimed() bool { return p.set != endpointsMap && p.set != affine && !p.shared() }

// shared tells whether several services may have the same row.
func (p place) shared() bool { return p.set == hairpin }

// difference is what is to be written.
type difference struct {
	gone, fresh []row
}

// put makes rows those of a service. It returns what is to be written, and the services that can have now what they wait for.
func (l *ledger) put(key informer.Key, c compiled) (d difference, freed []informer.Key) {
	if !l.addressesFree(key, c.rows) {
		c = compiled{}
	}
	before := map[place]content{}
	if old := l.services[key]; old != nil {
		for _, r := range old.rows {
			before[r.place] = r.content
		}
	}
	kept := c.rows[:0]
	for _, r := range c.rows {
		old, had := before[r.place]
		if !l.claim(key, r.place) {
			continue
		}
		kept = append(kept, r)
		delete(before, r.place)
		if had && old == r.content {
			continue
		}
		if had {
			l.strike(&d, row{r.place, old})
		}
		l.enter(&d, r)
	}
	c.rows = slices.Clip(kept)
	for p, old := range before {
		l.strike(&d, row{p, old})
		freed = append(freed, l.release(key, p)...)
	}
	if len(c.rows) == 0 && c.health.port == 0 {
		delete(l.services, key)
	} else {
		l.services[key] = &c
	}
	return d, freed
}

// addressesFree tells whether no other service has one of the cluster addresses: the one that is deleted may be heard of after
// the one that got its address.
func (l *ledger) addressesFree(key informer.Key, rows []row) bool {
	free := true
	for _, r := range rows {
		if r.set == clusterIPs && !l.claim(key, r.place) {
			free = false
		}
	}
	return free
}

// enter and strike note that a row comes or goes.
func (l *ledger) enter(d *difference, r row) {
	if r.shared() {
		if l.shares[r.place]++; l.shares[r.place] > 1 {
			return
		}
	}
	d.fresh = append(d.fresh, r)
	if r.chain.chooses() {
		l.chains[r.six][r.chain]++
	}
}

func (l *ledger) strike(d *difference, r row) {
	if r.shared() {
		if l.shares[r.place]--; l.shares[r.place] > 0 {
			return
		}
		delete(l.shares, r.place)
	}
	d.gone = append(d.gone, r)
	if of := l.chains[r.six]; r.chain.chooses() {
		if of[r.chain]--; of[r.chain] == 0 {
			delete(of, r.chain)
		}
	}
}

func (l *ledger) claim(key informer.Key, p place) bool {
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

func (l *ledger) release(key informer.Key, p place) []informer.Key {
	if l.owners[p] != key {
		return nil
	}
	delete(l.owners, p)
	waiting := slices.Collect(maps.Keys(l.waiting[p]))
	delete(l.waiting, p)
	return waiting
}

// putNode makes the addresses of the node those that node ports are open on.
func (l *ledger) putNode(addresses []netip.Addr) difference {
	wanted := map[place]struct{}{}
	for _, a := range addresses {
		wanted[place{six: !a.Is4(), set: nodeIPs, key: string(a.AsSlice())}] = struct{}{}
	}
	var d difference
	for p := range wanted {
		if _, had := l.node[p]; !had {
			d.fresh = append(d.fresh, row{place: p})
		}
	}
	for p := range l.node {
		if _, stays := wanted[p]; !stays {
			d.gone = append(d.gone, row{place: p})
		}
	}
	l.node = wanted
	return d
}

// all ranges over all rows of a family.
func (l *ledger) all(six bool) func(yield func(row) bool) {
	return func(yield func(row) bool) {
		for p := range l.node {
			if p.six == six && !yield(row{place: p}) {
				return
			}
		}
		for p := range l.shares {
			if p.six == six && !yield(row{place: p}) {
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

// places is how a service's endpoints were arranged last.
func (l *ledger) places(key informer.Key) places {
	if c := l.services[key]; c != nil {
		return c.places
	}
	return nil
}
