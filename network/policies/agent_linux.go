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
	log     *slog.Logger
	view    view
	conn    *nft.Conn
	tables  [2]*table

	generation uint32        // of nf_tables after our last write
	news       chan struct{} // holds one entry if anything has changed
	ready      chan struct{} // closed when the tables have been written for the first time
}

// New makes an agent.
func New(o Options) (*Agent, error) {
	if o.Clients == nil || o.Node == "" {
		return nil, errors.New("network policies need clients and the name of their node")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Check <= 0 {
		o.Check = 5 * time.Second
	}
	return &Agent{
		options: o, log: o.Logger, view: newView(o.Clients), tables: [2]*table{{}, {six: true}},
		news: make(chan struct{}, 1), ready: make(chan struct{}),
	}, nil
}

// Ready returns a channel that is closed when the tables have been written for the first time.
func (a *Agent) Ready() <-chan struct{} { return a.ready }

// Run keeps the tables of the network namespace of the calling thread until the context ends, and leaves them. The clients'
// informers must run beside it.
func (a *Agent) Run(ctx context.Context) error {
	conn, err := nft.Dial()
	if err != nil {
		return fmt.Errorf("network policies need the kernel's nf_tables, and root: %w", err)
	}
	a.conn = conn
	defer conn.Close()
	defer a.listen()()
	for _, c := range []loop.Cache{a.view.policies, a.view.pods, a.view.namespaces} {
		if err := c.Synced(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
	return a.loop(ctx)
}

// listen hears of changes. The function that it returns ends that.
func (a *Agent) listen() func() {
	all := []interface {
		Close()
		Done() <-chan struct{}
	}{
		a.view.policies.Handle(informer.Handler[*networkingv1.NetworkPolicy]{Name: "network policies",
			Added: func(*networkingv1.NetworkPolicy, bool) { a.nudge() }, Deleted: func(*networkingv1.NetworkPolicy, bool) { a.nudge() },
			Updated: func(before, after *networkingv1.NetworkPolicy) {
				if !equality.Semantic.DeepEqual(before.Spec, after.Spec) {
					a.nudge()
				}
			}}),
		a.view.pods.Handle(informer.Handler[*pod]{Name: "network policies",
			Added: func(*pod, bool) { a.nudge() }, Deleted: func(*pod, bool) { a.nudge() },
			Updated: func(before, after *pod) {
				if !before.same(after) {
					a.nudge()
				}
			}}),
		a.view.namespaces.Handle(informer.Handler[*namespace]{Name: "network policies",
			Added: func(*namespace, bool) { a.nudge() }, Deleted: func(*namespace, bool) { a.nudge() },
			Updated: func(before, after *namespace) {
				if !maps.Equal(before.labels, after.labels) {
					a.nudge()
				}
			}}),
	}
	return func() {
		for _, r := range all {
			r.Close()
			<-r.Done()
		}
	}
}

func (a *Agent) nudge() {
	select {
	case a.news <- struct{}{}:
	default:
	}
}

// The pauses after a failure.
const (
	firstPause = 100 * time.Millisecond
	mostPause  = 30 * time.Second
)

// loop writes what changed, and looks from time to time whether the tables are as they were left.
func (a *Agent) loop(ctx context.Context) error {
	check := time.NewTicker(a.options.Check)
	defer check.Stop()
	a.nudge()
	pause := firstPause
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.news:
		case <-check.C:
			if a.asLeft() {
				continue
			}
		}
		err := a.sync()
		if err == nil {
			pause = firstPause
			continue
		}
		a.log.Error("network policies could not be written", "err", err)
		a.tables[0].have, a.tables[1].have = nil, nil
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(2*pause, mostPause)
		a.nudge()
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
	select {
	case <-a.ready:
	default:
		close(a.ready)
	}
	return nil
}

// Remove removes all that an agent has written in the network namespace of the calling thread.
func Remove() error {
	conn, err := nft.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	var b nft.Batch
	for _, t := range []*table{{}, {six: true}} {
		_, exists, err := conn.Comment(t.nft())
		if err != nil {
			return err
		}
		if exists {
			b.DeleteTable(t.nft())
		}
	}
	if b.Len() == 0 {
		return nil
	}
	return conn.Commit(&b)
}
