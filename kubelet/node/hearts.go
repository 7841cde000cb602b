package node

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/loop"
)

// Options say which nodes there are and how their heartbeats go. Kube, Count and Facts are needed.
type Options struct {
	Kube kubernetes.Interface
	// Count is how many nodes there are, and Facts what the one with a number says now.
	Count int
	Facts func(i int) Facts
	// Changed wakes the writer when the facts of the (one) node change. Nil never does.
	Changed <-chan struct{}
	// LeaseEvery and LeaseFor are 10 s and 40 s by default, StatusEvery 5 minutes.
	LeaseEvery, LeaseFor, StatusEvery time.Duration
	// Writers is how many requests are under way at a time: 16 by default, and never more than nodes.
	Writers int
	// As makes the context in which requests for a node are made. Nil leaves it as it is.
	As func(ctx context.Context, node string) context.Context
	// Registered is told when all nodes are registered.
	Registered func()
	Logger     *slog.Logger
}

// Hearts keeps nodes alive. It is a loop.Runner.
type Hearts struct {
	Options
	nodes []heart
}

// heart is what is remembered of one node.
type heart struct {
	lease    string    // the version of its lease that we wrote last
	owner    types.UID // the node with which its lease goes
	statusAt time.Time
	// renewedAt is when its lease was renewed last. The clock on the wall counts, which goes on while a machine sleeps.
	renewedAt time.Time
}

// alive notes that a lease was renewed. A node that was silent for long may have been taken for dead meanwhile, so that its
// status is to be written.
func (h *heart) alive(every time.Duration) {
	now := time.Now().Round(0)
	if !h.renewedAt.IsZero() && now.Sub(h.renewedAt) > 2*every {
		h.statusAt = time.Time{}
	}
	h.renewedAt = now
}

// NewHearts makes Hearts.
func NewHearts(o Options) *Hearts {
	o.LeaseEvery = cmp.Or(o.LeaseEvery, 10*time.Second)
	o.LeaseFor = cmp.Or(o.LeaseFor, 40*time.Second)
	o.StatusEvery = cmp.Or(o.StatusEvery, 5*time.Minute)
	o.Writers = max(min(cmp.Or(o.Writers, 16), o.Count), 1)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Hearts{Options: o, nodes: make([]heart, o.Count)}
}

// Run registers the nodes and keeps them alive until ctx ends.
func (h *Hearts) Run(ctx context.Context) error {
	register := make([]loop.Runner, h.Writers)
	for w := range register {
		register[w] = loop.Func(func(ctx context.Context) error { return h.each(ctx, w, h.register) })
	}
	if err := loop.Join(register...).Run(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	if h.Registered != nil {
		h.Registered()
	}
	beat := make([]loop.Runner, h.Writers)
	for w := range beat {
		beat[w] = loop.Func(func(ctx context.Context) error { return h.beat(ctx, w) })
	}
	return loop.Join(beat...).Run(ctx)
}

// each does something to each node of one writer, again and again until it succeeds.
func (h *Hearts) each(ctx context.Context, writer int, do func(context.Context, int) error) error {
	for i := writer; i < h.Count; i += h.Writers {
		for delay := 100 * time.Millisecond; ctx.Err() == nil; delay = min(2*delay, 7*time.Second) {
			err := do(ctx, i)
			if err == nil {
				break
			}
			h.Logger.Warn("node cannot be registered yet", "node", h.Facts(i).Name, "err", err)
			h.pause(ctx, delay)
		}
	}
	return nil
}

// beat renews the leases of one writer's nodes, evenly over the time between two beats.
func (h *Hearts) beat(ctx context.Context, writer int) error {
	mine := (h.Count - writer + h.Writers - 1) / h.Writers
	if mine == 0 {
		<-ctx.Done()
		return nil
	}
	start := time.Now()
	for round := 0; ctx.Err() == nil; round++ {
		for k := range mine {
			i := writer + k*h.Writers
			err := h.renew(ctx, i)
			if err != nil && ctx.Err() == nil {
				h.Logger.Warn("lease cannot be renewed", "node", h.Facts(i).Name, "err", err)
			}
			if err == nil {
				h.nodes[i].alive(h.LeaseEvery)
			}
			if time.Since(h.nodes[i].statusAt) >= h.StatusEvery {
				h.tell(ctx, i)
			}
			due := start.Add(time.Duration(round)*h.LeaseEvery + time.Duration(k+1)*h.LeaseEvery/time.Duration(mine))
			if h.pauseOr(ctx, time.Until(due)) {
				h.tell(ctx, i)
			}
		}
		if late := time.Since(start) - time.Duration(round+1)*h.LeaseEvery; late > h.LeaseEvery { // do not hurry after what is lost
			start = start.Add(late)
		}
	}
	return nil
}

// tell writes a node's status. What cannot be written now is written with the next beat.
func (h *Hearts) tell(ctx context.Context, i int) {
	if err := h.status(ctx, i); err != nil && ctx.Err() == nil {
		h.nodes[i].statusAt = time.Time{}
		h.Logger.Warn("node status cannot be written", "node", h.Facts(i).Name, "err", err)
	}
}

func (h *Hearts) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// pauseOr waits, and is true if the facts changed meanwhile.
func (h *Hearts) pauseOr(ctx context.Context, d time.Duration) (changed bool) {
	if d <= 0 {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		case <-h.Changed:
			h.tell(ctx, 0)
		}
	}
}
