package policies

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/network/internal/tables"
	"github.com/millrace/millrace/internal/network/nft"
	"github.com/millrace/millrace/internal/network/pods"
	"github.com/millrace/millrace/loop"
)

// Options configure an Agent. Clients and Node must be set.
type Options struct {
	Clients *loop.Clients
	// Node is the name of the agent's node.
	Node string
	// Given are the addresses that the node's plugin has given to pods. They count before the API knows them, and are
	// released when the tables have them. Nil: policies know of addresses from the API alone.
	Given Given
	// Check is how often the agent checks whether another program has changed the tables. Default 5 s.
	Check  time.Duration
	Logger *slog.Logger // nil: discard
}

// Given are addresses of the pods of a node, as its plugin has given them.
type Given interface {
	// Owners returns the pods of the addresses.
	Owners() (map[netip.Addr]pods.Owner, error)
	// Release lets packets of these addresses pass, which wait until now.
	Release(known map[netip.Addr]bool) error
	// Watch calls changed after addresses were given or taken back, until ctx ends.
	Watch(ctx context.Context, changed func()) error
}

// Agent maintains the tables.
type Agent struct {
	options Options
	view    view
	conn    *nft.Conn
	tables  [2]*table

	generation uint32 // of nf_tables after our last write, if nobody else has written
	writer     *tables.Writer
}

// New makes an agent.
func New(o Options) (*Agent, error) {
	if o.Clients == nil || o.Node == "" {
		return nil, errors.New("network policies need clients and the name of their node")
	}
	a := &Agent{options: o, view: newView(o.Clients), tables: [2]*table{{}, {six: true}}}
	a.writer = tables.New(tables.Options{
		Name: "network policies", Sync: a.sync, Modified: func() bool { return !a.unmodified() }, Failed: func() { a.tables[0].written, a.tables[1].written = nil, nil },
		Check: o.Check, Logger: o.Logger,
	})
	return a, nil
}

// Ready returns a channel that is closed when the tables have been written for the first time.
func (a *Agent) Ready() <-chan struct{} { return a.writer.Ready() }

// Run maintains the tables of the network namespace of the calling thread until the context ends. The tables stay. The
// clients' informers must run at the same time.
func (a *Agent) Run(ctx context.Context) error {
	conn, err := nft.Dial()
	if err != nil {
		return fmt.Errorf("network policies need the kernel's nf_tables, and root: %w", err)
	}
	a.conn = conn
	defer conn.Close()
	if a.options.Given == nil {
		return a.write(ctx)
	}
	ctx, stop := context.WithCancel(ctx)
	watched := make(chan error, 1)
	go func() { // no sockets of a network namespace are opened here
		defer stop()
		watched <- a.options.Given.Watch(ctx, a.writer.Trigger)
	}()
	err = a.write(ctx)
	stop()
	return errors.Join(err, <-watched)
}

func (a *Agent) write(ctx context.Context) error {
	return a.writer.Run(ctx, a.listen(), a.view.policies, a.view.pods, a.view.namespaces)
}

// listen adds the handlers that trigger the writer.
func (a *Agent) listen() []tables.Registration {
	return []tables.Registration{
		a.view.policies.Handle(informer.Handler[*networkingv1.NetworkPolicy]{Name: "network policies",
			Added: func(*networkingv1.NetworkPolicy, bool) { a.writer.Trigger() }, Deleted: func(*networkingv1.NetworkPolicy, bool) { a.writer.Trigger() },
			Updated: func(before, after *networkingv1.NetworkPolicy) {
				if !equality.Semantic.DeepEqual(before.Spec, after.Spec) {
					a.writer.Trigger()
				}
			}}),
		a.view.pods.Handle(informer.Handler[*pod]{Name: "network policies",
			Added: func(*pod, bool) { a.writer.Trigger() }, Deleted: func(*pod, bool) { a.writer.Trigger() },
			Updated: func(before, after *pod) {
				if !before.same(after) {
					a.writer.Trigger()
				}
			}}),
		a.view.namespaces.Handle(informer.Handler[*namespace]{Name: "network policies",
			Added: func(*namespace, bool) { a.writer.Trigger() }, Deleted: func(*namespace, bool) { a.writer.Trigger() },
			Updated: func(before, after *namespace) {
				if !maps.Equal(before.labels, after.labels) {
					a.writer.Trigger()
				}
			}}),
	}
}

// unmodified reports whether the tables are still as they were written. The state of a modified table is dropped, so
// that it is written again.
func (a *Agent) unmodified() bool {
	g, err := a.conn.Generation()
	if err == nil && g == a.generation {
		return true
	}
	a.generation = g
	isComplete := true
	for _, t := range a.tables {
		if t.written != nil && !a.isComplete(t) {
			t.written, isComplete = nil, false
		}
	}
	return isComplete
}

func (a *Agent) isComplete(t *table) bool {
	comment, exists, err := a.conn.Comment(t.nft())
	if err != nil || exists != (len(t.written.podAddresses) > 0) {
		return false
	}
	if !exists {
		return true
	}
	rules, err := a.conn.Rules(t.nft())
	if err != nil || comment != t.layoutDigest() || !maps.Equal(rules, t.rules()) {
		return false
	}
	for d := range podChainSets {
		have, err := a.conn.Elements(t.nft(), podChainSets[d])
		if err != nil || len(have) != len(t.written.podChains[d]) {
			return false
		}
	}
	return true
}

// sync writes the tables for the current policies, pods and namespaces.
func (a *Agent) sync() error {
	state := a.view.clusterState()
	known, err := a.give(state)
	if err != nil {
		return err
	}
	want := compile(state, a.options.Node)
	var b nft.Batch
	for f, t := range a.tables {
		_, exists, err := a.conn.Comment(t.nft())
		if err != nil {
			return err
		}
		if t.written != nil && exists != (len(t.written.podAddresses) > 0) {
			t.written = nil
		}
		t.write(&b, want[f], exists)
	}
	if b.Len() > 0 {
		if err := a.conn.Commit(&b); err != nil {
			return err
		}
		a.generation = nft.Next(a.generation)
	}
	for f, t := range a.tables {
		t.written = want[f]
	}
	if len(known) > 0 {
		return a.options.Given.Release(known)
	}
	return nil
}

// give adds the addresses that the plugin has given to the pods of this node, and returns those whose pods are known.
func (a *Agent) give(state *clusterState) (known map[netip.Addr]bool, err error) {
	if a.options.Given == nil {
		return nil, nil
	}
	owners, err := a.options.Given.Owners()
	if err != nil {
		return nil, fmt.Errorf("read the addresses of this node's pods: %w", err)
	}
	return state.give(a.options.Node, owners, a.view.pod), nil
}

// Remove removes everything that an agent has written in the network namespace of the calling thread.
func Remove() error { return tables.Remove((&table{}).nft(), (&table{six: true}).nft()) }
