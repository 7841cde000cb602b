package nodelifecycle

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// zones counts the ready nodes of each zone, and limits NoExecute taints.
type zones struct {
	options Options // with defaults

	mu       sync.Mutex // guards what follows
	nodes    map[string]standing
	counts   map[string]*count
	limiters map[string]*rate.Limiter
}

type standing struct {
	zone  string
	ready bool
}

type count struct{ ready, failing int }

func newZones(o Options) *zones {
	return &zones{options: o, nodes: map[string]standing{}, counts: map[string]*count{}, limiters: map[string]*rate.Limiter{}}
}

// set sets the state of a node.
func (z *zones) set(node string, now standing) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.removeLocked(node)
	z.nodes[node] = now
	if z.counts[now.zone] == nil {
		z.counts[now.zone] = &count{}
	}
	z.counts[now.zone].add(now.ready, 1)
}

func (z *zones) remove(node string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.removeLocked(node)
}

func (z *zones) removeLocked(node string) {
	old, ok := z.nodes[node]
	if !ok {
		return
	}
	delete(z.nodes, node)
	z.counts[old.zone].add(old.ready, -1)
	if *z.counts[old.zone] == (count{}) {
		delete(z.counts, old.zone)
		delete(z.limiters, old.zone)
	}
}

func (c *count) add(ready bool, n int) {
	if ready {
		c.ready += n
	} else {
		c.failing += n
	}
}

// each returns the number of nodes of each zone.
func (z *zones) each() map[string]Zone {
	z.mu.Lock()
	defer z.mu.Unlock()
	all := make(map[string]Zone, len(z.counts))
	for zone, c := range z.counts {
		all[zone] = Zone{c.ready, c.failing}
	}
	return all
}

// allFailing reports whether no node of the cluster is ready.
func (z *zones) allFailing() bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	for _, c := range z.counts {
		if c.ready > 0 {
			return false
		}
	}
	return true
}

// allow reports whether one more node of the zone may get a NoExecute taint now.
func (z *zones) allow(zone string, now time.Time) bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	limit := z.rateLocked(zone)
	if limit <= 0 {
		return false
	}
	limiter := z.limiters[zone]
	if limiter == nil {
		limiter = rate.NewLimiter(limit, 1)
		z.limiters[zone] = limiter
	}
	if limiter.Limit() != limit {
		limiter.SetLimitAt(now, limit)
	}
	return limiter.AllowN(now, 1)
}

func (z *zones) rateLocked(zone string) rate.Limit {
	c := z.counts[zone]
	if c == nil || c.ready == 0 || c.failing <= 2 || float64(c.failing)/float64(c.ready+c.failing) < z.options.Unhealthy {
		return rate.Limit(z.options.Rate)
	}
	if c.ready+c.failing > z.options.LargeZone {
		return rate.Limit(z.options.ReducedRate)
	}
	return 0
}
