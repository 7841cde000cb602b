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
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/network/internal/tables"
	"github.com/millrace/millrace/network/nft"
)

// Options configure a Proxy. Clients and Node must be set.
type Options struct {
	Clients *loop.Clients
	// Node is the name of the node that the proxy works for.
	Node string
	// ClusterCIDRs are where the cluster's pods are. What comes to a cluster address from elsewhere gets the node's address as its
	// source.
	ClusterCIDRs []netip.Prefix
	// MasqueradeAll hides the source of everything that is sent to a cluster address.
	MasqueradeAll bool
	// NodePortAddresses are where node ports are open: those of the node's own addresses that lie in one of these ranges. None: on the
	// node's first address of each family.
	NodePortAddresses []netip.Prefix
	// Check is how often the proxy looks whether somebody else has changed the tables. Default 5 s.
	Check  time.Duration
	Logger *slog.Logger // nil: discard
}

// Proxy keeps the tables.
type Proxy struct {
	options Options
	log     *slog.Logger
	view    view
	ledger  *ledger
	health  healthServer
	kernels []*kernel
	conn    *nft.Conn

	generation uint32 // of nf_tables after our last write
	foreign    bool   // somebody else has written since all was compared
	doubt      bool   // the tables may not be what the ledger says
	compared   time.Time
	node       *node
	writer     *tables.Writer

	mu    sync.Mutex
	dirty map[informer.Key]struct{} // guarded by mu: services that have changed
	moved bool                      // guarded by mu: the node has changed
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
		options: o, log: o.Logger, view: newView(o.Clients, o.Node), ledger: newLedger(), health: healthServer{log: o.Logger},
		node: &node{name: o.Node}, dirty: map[informer.Key]struct{}{},
	}
	p.writer = tables.New(tables.Options{Name: "services", Sync: p.sync, Look: p.look, Failed: func() { p.doubt = true }, Check: o.Check, Logger: o.Logger})
	return p, nil
}

// Ready returns a channel that is closed when the tables have been written for the first time.
func (p *Proxy) Ready() <-chan struct{} { return p.writer.Ready() }

// Run keeps the tables of the network namespace of the calling thread until the context ends, and leaves them. The clients'
// informers must run beside it.
func (p *Proxy) Run(ctx context.Context) error {
	if err := p.open(); err != nil {
		return err
	}
	defer p.conn.Close()
	defer p.health.close()
	p.doubt = true
	p.everything()
	return p.writer.Run(ctx, p.listen(), p.view.services, p.view.slices, p.view.nodes)
}

// open connects to the kernel, and finds out which families it has.
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
		p.kernels = append(p.kernels, &kernel{family: f, conn: conn, chains: map[string]bool{}})
	}
	return nil
}

// listen hears of changes.
func (p *Proxy) listen() []tables.Registration {
	mark := func(s *slice) { p.changed(s.service) }
	return []tables.Registration{
		p.view.services.Handle(informer.Handler[*service]{Changed: p.changed}),
		p.view.slices.Handle(informer.Handler[*slice]{
			Added: func(s *slice, _ bool) { mark(s) }, Updated: func(a, b *slice) { mark(a); mark(b) }, Deleted: func(s *slice, _ bool) { mark(s) },
		}),
		p.view.nodes.Handle(informer.Handler[*node]{Changed: func(informer.Key) { p.everything() }}),
	}
}

func (p *Proxy) changed(key informer.Key) {
	p.mu.Lock()
	p.dirty[key] = struct{}{}
	p.mu.Unlock()
	p.writer.Nudge()
}

func (p *Proxy) everything() {
	p.mu.Lock()
	p.moved = true
	p.mu.Unlock()
	p.writer.Nudge()
}

// fullPass is how long elements that somebody else changed may stay as they are. To list them takes the kernel seconds where there
// are 100,000, so this is not done at each change of somebody else's tables.
const fullPass = 5 * time.Minute

// look notices that somebody else has written to nf_tables. Tables or rules that are gone are put right at once.
func (p *Proxy) look() bool {
	g, err := p.conn.Generation()
	if err != nil {
		p.doubt = true
		return true
	}
	p.foreign = p.foreign || g != p.generation
	if p.foreign && time.Since(p.compared) > fullPass {
		p.doubt = true
	}
	if g == p.generation {
		return p.doubt
	}
	p.generation = g
	for _, k := range p.kernels {
		comment, exists, err := k.conn.Comment(k.table())
		whole := false
		if err == nil {
			whole, err = k.whole(exists && comment == k.make(), p.ledger.chains[k.six])
		}
		if err != nil || !whole {
			p.doubt = true
		}
	}
	return p.doubt
}

// sync brings the ledger up to date, and the tables to it.
func (p *Proxy) sync() error {
	keys, all := p.take()
	var d difference
	if all {
		d = p.renew()
	}
	var flows []flowChange
	for len(keys) > 0 {
		key := keys[0]
		keys = keys[1:]
		before := p.ledger.services[key]
		now := p.compile(key)
		p.health.set(key, now.health)
		change, freed := p.ledger.put(key, now)
		d.gone, d.fresh = append(d.gone, change.gone...), append(d.fresh, change.fresh...)
		flows = append(flows, flowChanges(before, p.ledger.services[key])...)
		keys = append(keys, freed...)
	}
	if err := p.commit(d); err != nil {
		return err
	}
	forgetFlows(flows, p.node.addresses, p.log)
	return nil
}

// take takes what is to be looked at.
func (p *Proxy) take() ([]informer.Key, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wanted := p.dirty
	all := p.moved
	p.dirty, p.moved = map[informer.Key]struct{}{}, false
	if all {
		for key := range p.ledger.services {
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

// renew reads the node again.
func (p *Proxy) renew() difference {
	p.node = &node{name: p.options.Node}
	if n, ok := p.view.nodes.Get("", p.options.Node); ok {
		p.node = n
	}
	return p.ledger.putNode(p.portAddresses())
}

// portAddresses are the addresses that node ports are open on.
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
	return compile(s, slices, p.node, p.ledger.places(key))
}

// commit writes a difference; if the tables are in doubt, what they lack instead.
func (p *Proxy) commit(d difference) error {
	var b nft.Batch
	if !p.doubt {
		for _, k := range p.kernels {
			k.write(&b, d)
		}
	}
	for _, k := range p.kernels {
		if !p.doubt {
			break
		}
		if err := k.compare(&b, p.ledger); err != nil {
			return err
		}
	}
	if b.Len() > 0 {
		if err := p.conn.Commit(&b); err != nil {
			return err
		}
	}
	if b.Len() > 0 || p.doubt {
		var err error
		if p.generation, err = p.conn.Generation(); err != nil {
			return err
		}
	}
	if p.doubt {
		p.doubt, p.foreign, p.compared = false, false, time.Now()
	}
	return nil
}

// Check tells whether the kernel can do what services need, and by the error what it cannot do. It makes a table and removes it in
// the same transaction, so that nothing of it is ever seen.
func Check() error {
	conn, err := nft.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	f := family{name: "millrace-check"}
	var b nft.Batch
	f.build(&b)
	for _, c := range []chain{{kind: kindCluster, n: 2}, {kind: kindCluster, n: 2, sticky: 1}} {
		(&kernel{family: f, chains: map[string]bool{}}).chain(&b, c)
	}
	b.DeleteTable(f.table())
	if err := conn.Commit(&b); err != nil {
		return fmt.Errorf("the kernel's nf_tables cannot do what services need: %w", err)
	}
	return nil
}

// Remove removes all that a proxy has written in the network namespace of the calling thread.
func Remove() error { return tables.Remove(family{}.table(), family{six: true}.table()) }
