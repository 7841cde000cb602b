package node

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/internal/sleep"
	"github.com/millrace/millrace/loop"
)

// Options configure the heartbeats. Kube, Count and Facts are required.
type Options struct {
	Kube kubernetes.Interface
	// Count is the number of nodes. Facts returns the current facts of node i.
	Count int
	Facts func(i int) Facts
	// Changed receives a value when the facts of the only node have changed. It may be nil.
	Changed <-chan struct{}
	// LeaseEvery and LeaseFor are 10 s and 40 s by default, StatusEvery 5 minutes.
	LeaseEvery, LeaseFor, StatusEvery time.Duration
	// NoRegister never makes a node. What is missing is waited for.
	NoRegister bool
	// Writers is how many requests may run at the same time: 16 by default, and never more than nodes.
	Writers int
	// As returns the context for a node's requests. Nil uses the given context.
	As func(ctx context.Context, node string) context.Context
	// Registered is called when all nodes are registered.
	Registered func()
	Logger     *slog.Logger
}

// Heartbeats keeps nodes alive. It is a loop.Runner.
type Heartbeats struct {
	Options
	nodes []heartbeat
	start time.Time // of the first round
}

// heartbeat is the state of one node's heartbeat.
type heartbeat struct {
	lease    string    // the resource version after our last write of the lease
	owner    types.UID // the UID of the node that owns the lease
	statusAt time.Time
	// renewedAt is when the lease was last renewed, by the wall clock, which goes on while a machine is suspended.
	renewedAt time.Time
}

// alive notes that a lease was renewed. After a long silence the status is written too, because the node may have been
// marked unreachable.
func (h *heartbeat) alive(every time.Duration) {
	now := time.Now().Round(0)
	if !h.renewedAt.IsZero() && now.Sub(h.renewedAt) > 2*every {
		h.statusAt = time.Time{}
	}
	h.renewedAt = now
}

// NewHeartbeats returns Heartbeats. Run starts them.
func NewHeartbeats(o Options) *Heartbeats {
	o.LeaseEvery = cmp.Or(o.LeaseEvery, 10*time.Second)
	o.LeaseFor = cmp.Or(o.LeaseFor, 40*time.Second)
	o.StatusEvery = cmp.Or(o.StatusEvery, 5*time.Minute)
	o.Writers = max(min(cmp.Or(o.Writers, 16), o.Count), 1)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Heartbeats{Options: o, nodes: make([]heartbeat, o.Count)}
}

// Run registers the nodes and keeps them alive until ctx ends.
func (h *Heartbeats) Run(ctx context.Context) error {
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
	h.start = time.Now()
	beat := make([]loop.Runner, h.Writers)
	for w := range beat {
		beat[w] = loop.Func(func(ctx context.Context) error { return h.beat(ctx, w) })
	}
	return loop.Join(beat...).Run(ctx)
}

// each calls do for each node of one writer, and retries until it succeeds.
func (h *Heartbeats) each(ctx context.Context, writer int, do func(context.Context, int) error) error {
	for i := writer; i < h.Count; i += h.Writers {
		for delay := 100 * time.Millisecond; ctx.Err() == nil; delay = min(2*delay, 7*time.Second) {
			err := do(ctx, i)
			if err == nil {
				break
			}
			h.Logger.Warn("node cannot be registered; will retry", "node", h.Facts(i).Name, "err", err)
			sleep.For(ctx, delay)
		}
	}
	return nil
}

// beat renews the leases of one writer's nodes, spread evenly over the period.
func (h *Heartbeats) beat(ctx context.Context, writer int) error {
	mine := (h.Count - writer + h.Writers - 1) / h.Writers
	if mine == 0 {
		<-ctx.Done()
		return nil
	}
	start := h.start
	for round := 0; ctx.Err() == nil; round++ {
		for k := range mine {
			i := writer + k*h.Writers
			due := start.Add(together(time.Duration(round)*h.LeaseEvery + time.Duration(k+1)*h.LeaseEvery/time.Duration(mine)))
			if h.renewUntil(ctx, i, due) {
				h.nodes[i].alive(h.LeaseEvery)
			}
			if time.Since(h.nodes[i].statusAt) >= h.StatusEvery {
				h.tell(ctx, i)
			}
			if h.pauseOr(ctx, time.Until(due)) {
				h.tell(ctx, i)
			}
		}
		if late := time.Since(start) - time.Duration(round+1)*h.LeaseEvery; late > h.LeaseEvery { // do not try to catch up
			start = start.Add(late)
		}
	}
	return nil
}

// together moves a time to when others are due as well: a few renewals one after the other need much less time of the
// processor than one each few milliseconds, each of which wakes everything on its way.
func together(d time.Duration) time.Duration {
	const every = 200 * time.Millisecond
	return (d + every/2).Truncate(every)
}

// renewAgain is how soon a renewal that failed is repeated.
const renewAgain = time.Second

// renewUntil renews a lease, and repeats what fails as long as nothing else is due. It returns whether the lease is
// renewed.
func (h *Heartbeats) renewUntil(ctx context.Context, i int, due time.Time) bool {
	err := h.renew(ctx, i)
	if err != nil && ctx.Err() == nil {
		h.Logger.Warn("lease cannot be renewed", "node", h.Facts(i).Name, "err", err)
	}
	for err != nil && time.Until(due) > renewAgain && ctx.Err() == nil {
		sleep.For(ctx, renewAgain)
		err = h.renew(ctx, i)
	}
	return err == nil
}

// tell writes a node's status. A write that fails is repeated with the next heartbeat.
func (h *Heartbeats) tell(ctx context.Context, i int) {
	if err := h.status(ctx, i); err != nil && ctx.Err() == nil {
		h.nodes[i].statusAt = time.Time{}
		h.Logger.Warn("node status cannot be written", "node", h.Facts(i).Name, "err", err)
	}
}

// pauseOr waits for d. It returns true early if the facts have changed.
func (h *Heartbeats) pauseOr(ctx context.Context, d time.Duration) (changed bool) {
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
