package policies

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/network/internal/tables"
	"github.com/millrace/millrace/network/nft"
)

// Options configure an Agent. Clients and Node must be set.
type Options struct {
	Clients *loop.Clients
	// Node is the name of the node that the agent works for.
	Node string
	// Check is how often the agent looks whether somebody else has changed the tables. Default 5 s.
	Check  time.Duration
	Logger *slog.Logger // nil: discard
}

// Agent keeps the tables.
type Agent struct {
	options Options
	view    view
	conn    *nft.Conn
	tables  [2]*table

	generation uint32 // of nf_tables after our last write
	writer     *tables.Writer
}

// New makes an agent.
func New(o Options) (*Agent, error) {
	if o.Clients == nil || o.Node == "" {
		return nil, errors.New("network policies need clients and the name of their node")
	}
	a := &Agent{options: o, view: newView(o.Clients), tables: [2]*table{{}, {six: true}}}
	a.writer = tables.New(tables.Options{
		Name: "network policies", Sync: a.sync, Look: func() bool { return !a.asLeft() }, Failed: func() { a.tables[0].have, a.tables[1].have = nil, nil },
		Check: o.Check, Logger: o.Logger,
	})
	return a, nil
}

// Ready returns a channel that is closed when the tables have been written for the first time.
func (a *Agent) Ready() <-chan struct{} { return a.writer.Ready() }

// Run keeps the tables of the network namespace of the calling thread until the context ends, and leaves them. The clients'
// informers must run beside it.
func (a *Agent) Run(ctx context.Context) error {
	conn, err := nft.Dial()
	if err != nil {
		return fmt.Errorf("network policies need the kernel's nf_tables, and root: %w", err)
	}
	a.conn = conn
	defer conn.Close()
	return a.writer.Run(ctx, a.listen(), a.view.policies, a.view.pods, a.view.namespaces)
}

// listen hears of changes.
func (a *Agent) listen() []tables.Registration {
	return []tables.Registration{
		a.view.policies.Handle(informer.Handler[*networkingv1.NetworkPolicy]{Name: "network policies",
			Added: func(*networkingv1.NetworkPolicy, bool) { a.writer.Nudge() }, Deleted: func(*networkingv1.NetworkPolicy, bool) { a.writer.Nudge() },
			Updated: func(before, after *networkingv1.NetworkPolicy) {
				if !equality.Semantic.DeepEqual(before.Spec, after.Spec) {
					a.writer.Nudge()
				}
			}}),
		a.view.pods.Handle(informer.Handler[*pod]{Name: "network policies",
			Added: func(*pod, bool) { a.writer.Nudge() }, Deleted: func(*pod, bool) { a.writer.Nudge() },
			Updated: func(before, after *pod) {
				if !before.same(after) {
					a.writer.Nudge()
				}
			}}),
		a.view.namespaces.Handle(informer.Handler[*namespace]{Name: "network policies",
			Added: func(*namespace, bool) { a.writer.Nudge() }, Deleted: func(*namespace, bool) { a.writer.Nudge() },
			Updated: func(before, after *namespace) {
				if !maps.Equal(before.labels, after.labels) {
					a.writer.Nudge()
				}
			}}),
	}
}

// asLeft tells whether the tables are still as they were written. A table that is not is forgotten, so that it is written anew.
func (a *Agent) asLeft() bool {
	g, err := a.conn.Generation()
	if err == nil && g == a.generation {
		return true
	}
	a.generation = g
	whole := true
	for _, t := range a.tables {
		if t.have != nil && !a.whole(t) {
			t.have, whole = nil, false
		}
	}
	return whole
}

func (a *Agent) whole(t *table) bool {
	comment, exists, err := a.conn.Comment(t.nft())
	if err != nil || exists != (len(t.have.own) > 0) {
		return false
	}
	if !exists {
		return true
	}
	rules, err := a.conn.Rules(t.nft())
	if err != nil || comment != t.make() || !maps.Equal(rules, t.rules()) {
		return false
	}
	for d := range leadNames {
		have, err := a.conn.Elements(t.nft(), leadNames[d])
		if err != nil || len(have) != len(t.have.leads[d]) {
			return false
		}
	}
	return true
}

// sync makes the tables what policies, pods and namespaces say now.
func (a *Agent) sync() error {
	want := compile(a.view.world(), a.options.Node)
	var b nft.Batch
	for f, t := range a.tables {
		_, exists, err := a.conn.Comment(t.nft())
		if err != nil {
			return err
		}
		if t.have != nil && exists != (len(t.have.own) > 0) {
			t.have = nil
		}
		t.write(&b, want[f], exists)
	}
	if b.Len() > 0 {
		if err := a.conn.Commit(&b); err != nil {
			return err
		}
		var err error
		if a.generation, err = a.conn.Generation(); err != nil {
			return err
		}
	}
	for f, t := range a.tables {
		t.have = want[f]
	}
	return nil
}

// Remove removes all that an agent has written in the network namespace of the calling thread.
func Remove() error { return tables.Remove((&table{}).nft(), (&table{six: true}).nft()) }
