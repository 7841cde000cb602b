//go:build linux

package services

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/network/internal/tables"
	"github.com/millrace/millrace/internal/network/nft"
	"github.com/millrace/millrace/loop"
)

// Options configure a Proxy. Clients and Node must be set.
type Options struct {
	Clients *loop.Clients
	// Node is the name of the proxy's node.
	Node string
	// ClusterCIDRs are the ranges of the cluster's pods. Packets to a cluster IP from other addresses are masqueraded.
	ClusterCIDRs []netip.Prefix
	// MasqueradeAll masquerades all packets to cluster IPs.
	MasqueradeAll bool
	// NodePortAddresses are the ranges of the node's addresses on which node ports are open. None: the node's first
	// address of each family.
	NodePortAddresses []netip.Prefix
	// Metrics are updated by the proxy. Nil: none.
	Metrics *Metrics
	// Check is how often the proxy checks whether another program has changed the tables. Default 5 s.
	Check  time.Duration
	Logger *slog.Logger // nil: discard
}

// Proxy maintains the tables.
type Proxy struct {
	options      Options
	log          *slog.Logger
	view         view
	desired      *desiredTables
	health       healthServer
	kernelTables []*kernelTable
	conn         *nft.Conn

	generation      uint32 // of nf_tables after our last write, if nobody else has written
	changedByOthers bool   // another program has written since the last full comparison
	needsCompare    bool   // the tables must be compared with the desired ones
	compared        time.Time
	node            *node
	writer          *tables.Writer
	status          status

	mu              sync.Mutex
	changedServices map[informer.Key]struct{} // guarded by mu: services that have changed
	nodeChanged     bool                      // guarded by mu: the node has changed
}

// New makes a proxy.
func New(o Options) (*Proxy, error) {
	if o.Clients == nil || o.Node == "" {
		return nil, errors.New("the proxy needs clients and the name of its node")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Proxy{
		options: o, log: o.Logger, view: newView(o.Clients, o.Node), desired: newDesiredTables(),
		node: &node{name: o.Node}, changedServices: map[informer.Key]struct{}{},
	}
	p.health = healthServer{log: o.Logger, proxyHealthy: p.status.healthy}
	p.writer = tables.New(tables.Options{Name: "services", Sync: p.sync, Modified: p.modified, Failed: func() { p.needsCompare = true }, Check: o.Check, Logger: o.Logger})
	return p, nil
}

// Ready returns a channel that is closed when the tables have been written for the first time.
func (p *Proxy) Ready() <-chan struct{} { return p.writer.Ready() }

// Run maintains the tables of the network namespace of the calling thread until the context ends. The tables stay. The
// clients' informers must run at the same time.
func (p *Proxy) Run(ctx context.Context) error {
	if err := p.open(); err != nil {
		return err
	}
	defer p.conn.Close()
	defer p.health.close()
	p.needsCompare = true
	p.changedNode()
	return p.writer.Run(ctx, p.listen(), p.view.services, p.view.slices, p.view.nodes)
}

// open connects to the kernel.
func (p *Proxy) open() error {
	conn, err := nft.Dial()
	if err != nil {
		return fmt.Errorf("services need the kernel's nf_tables, and root: %w", err)
	}
	p.conn = conn
	for _, six := range []bool{false, true} {
		f := family{six: six, all: p.options.MasqueradeAll}
		for _, c := range p.options.ClusterCIDRs {
			if c.Addr().Is4() != six {
				f.pods = c.Masked()
			}
		}
		p.kernelTables = append(p.kernelTables, &kernelTable{family: f, conn: conn, chains: map[string]bool{}})
	}
	return nil
}

// listen adds the handlers that trigger the writer.
func (p *Proxy) listen() []tables.Registration {
	m := p.options.Metrics
	mark := func(all ...*slice) {
		m.changed(ofEndpoints)
		for _, s := range all {
			p.changed(s.service)
		}
	}
	return []tables.Registration{
		p.view.services.Handle(informer.Handler[*service]{Changed: func(key informer.Key) { m.changed(ofServices); p.changed(key) }}),
		p.view.slices.Handle(informer.Handler[*slice]{
			Added: func(s *slice, _ bool) { m.triggered(s.triggered); mark(s) },
			Updated: func(a, b *slice) {
				if a.triggered != b.triggered {
					m.triggered(b.triggered)
				}
				mark(a, b)
			},
			Deleted: func(s *slice, _ bool) { mark(s) },
		}),
		p.view.nodes.Handle(informer.Handler[*node]{Changed: func(informer.Key) { p.changedNode() }}),
	}
}

func (p *Proxy) changed(key informer.Key) {
	p.mu.Lock()
	p.changedServices[key] = struct{}{}
	p.mu.Unlock()
	p.status.queued()
	p.writer.Trigger()
}

func (p *Proxy) changedNode() {
	p.mu.Lock()
	p.nodeChanged = true
	p.mu.Unlock()
	p.status.queued()
	p.writer.Trigger()
}

// fullCompareInterval is how long elements that another program has changed may stay wrong. The kernel takes seconds to
// list 100,000 elements, so they are not compared at each change of another program's tables.
const fullCompareInterval = 5 * time.Minute

// modified reports whether the tables must be written because another program has changed nf_tables. Missing tables or
// rules are corrected at once.
func (p *Proxy) modified() bool {
	g, err := p.conn.Generation()
	if err != nil {
		p.needsCompare = true
		return true
	}
	p.changedByOthers = p.changedByOthers || g != p.generation
	if p.changedByOthers && time.Since(p.compared) > fullCompareInterval {
		p.needsCompare = true
	}
	if g == p.generation {
		return p.needsCompare
	}
	p.generation = g
	for _, k := range p.kernelTables {
		comment, exists, err := k.conn.Comment(k.table())
		whole := false
		if err == nil {
			whole, err = k.isComplete(exists && comment == k.layoutDigest(), p.desired.chains[k.six])
		}
		if err != nil || !whole {
			p.needsCompare = true
		}
	}
	return p.needsCompare
}

// sync updates and writes the tables, and records that for health and metrics.
func (p *Proxy) sync() error {
	began, since, triggers, whole := time.Now(), p.status.begin(), p.options.Metrics.begin(), p.needsCompare
	err := p.write()
	p.status.end(since, err != nil)
	if err != nil {
		p.options.Metrics.failed(triggers)
		return err
	}
	p.options.Metrics.ended(began, whole, triggers)
	p.options.Metrics.setUnserved(p.desired.unserved)
	return nil
}

// write updates the desired tables, and writes the kernel's.
func (p *Proxy) write() error {
	keys, all := p.takeChanged()
	var d difference
	if all {
		d = p.updateNode()
	}
	var flows []flowChange
	for len(keys) > 0 {
		key := keys[0]
		keys = keys[1:]
		before := p.desired.services[key]
		now := p.compile(key)
		p.health.set(key, now.health)
		change, freed := p.desired.put(key, now)
		d.removed, d.added = append(d.removed, change.removed...), append(d.added, change.added...)
		flows = append(flows, flowChanges(before, p.desired.services[key])...)
		keys = append(keys, freed...)
	}
	if err := p.commit(d); err != nil {
		return err
	}
	forgetFlows(flows, p.node.addresses, p.options.Metrics, p.log)
	return nil
}

// takeChanged returns the services to compile, and whether the node has changed.
func (p *Proxy) takeChanged() ([]informer.Key, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wanted := p.changedServices
	all := p.nodeChanged
	p.changedServices, p.nodeChanged = map[informer.Key]struct{}{}, false
	if all {
		for key := range p.desired.services {
			wanted[key] = struct{}{}
		}
		for key := range p.view.services.Snapshot().AllKeys() {
			wanted[key] = struct{}{}
		}
	}
	keys := make([]informer.Key, 0, len(wanted))
	for key := range wanted {
		keys = append(keys, key)
	}
	return keys, all
}

// updateNode reads the node again.
func (p *Proxy) updateNode() difference {
	p.node = &node{name: p.options.Node}
	if n, ok := p.view.nodes.Get("", p.options.Node); ok {
		p.node = n
	}
	p.status.setLeaving(p.node.leaving)
	return p.desired.putNode(p.portAddresses())
}

// portAddresses returns the addresses on which node ports are open.
func (p *Proxy) portAddresses() []netip.Addr {
	var all []netip.Addr
	for _, a := range p.node.addresses {
		first := !slices.ContainsFunc(all, func(b netip.Addr) bool { return a.Is4() == b.Is4() })
		within := slices.ContainsFunc(p.options.NodePortAddresses, func(r netip.Prefix) bool { return r.Contains(a) })
		if within || first && len(p.options.NodePortAddresses) == 0 {
			all = append(all, a)
		}
	}
	return all
}

func (p *Proxy) compile(key informer.Key) compiled {
	s, ok := p.view.services.Lookup(key)
	if !ok {
		return compiled{}
	}
	slices := slices.Collect(p.view.slices.By(byService, key.String()))
	return compile(s, slices, p.node, p.desired.endpointNumbers(key))
}

// commit writes a difference. If needsCompare is set, it writes what a comparison finds instead.
func (p *Proxy) commit(d difference) error {
	var b nft.Batch
	if !p.needsCompare {
		for _, k := range p.kernelTables {
			k.write(&b, d)
		}
	} else if err := p.compare(&b); err != nil {
		return err
	}
	if b.Len() > 0 {
		if err := p.conn.Commit(&b); err != nil {
			return err
		}
		p.generation = nft.Next(p.generation)
	}
	if p.needsCompare {
		p.needsCompare, p.changedByOthers, p.compared = false, false, time.Now()
	}
	return nil
}

// compare adds what is missing or wrong. The generation is that of before: what changes from now on is noticed.
func (p *Proxy) compare(b *nft.Batch) (err error) {
	if p.generation, err = p.conn.Generation(); err != nil {
		return err
	}
	for _, k := range p.kernelTables {
		if err := k.compare(b, p.desired); err != nil {
			return err
		}
	}
	return nil
}

// Check returns an error if the kernel cannot do what services need. It makes a table and removes it in the same
// transaction, so the table is never visible.
func Check() error {
	conn, err := nft.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	f := family{name: "millrace-check"}
	var b nft.Batch
	f.build(&b)
	for _, c := range []chain{{kind: kindCluster, n: 2}, {kind: kindCluster, n: 2, affinityTimeout: 1}} {
		(&kernelTable{family: f, chains: map[string]bool{}}).chain(&b, c)
	}
	b.DeleteTable(f.table())
	if err := conn.Commit(&b); err != nil {
		return fmt.Errorf("the kernel's nf_tables cannot do what services need: %w", err)
	}
	return nil
}

// Remove removes everything that a proxy has written in the network namespace of the calling thread.
func Remove() error { return tables.Remove(family{}.table(), family{six: true}.table()) }
