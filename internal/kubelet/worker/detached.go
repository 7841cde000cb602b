package worker

import (
	"context"
	"log/slog"

	"github.com/millrace/millrace/cause"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/queue"
)

// detachable is one sync of a pod in a goroutine of its own. A worker waits for it until the sync needs something whose
// length others choose: an image, a hook, a volume. From then on the sync is detached: it goes on alone, and the worker
// serves other pods.
type detachable struct {
	detached, ended chan struct{} // closed
	alone           bool          // detached is closed; written by the sync's goroutine, and read by others once ended is closed
	result          loop.Result   // valid once ended is closed, as is err
	err             error
	again           bool        // the pod has changed meanwhile; guarded by the Crew's mu
	later           cause.Cause // why; guarded by the Crew's mu
}

// detach lets the worker go. The sync's goroutine calls it, any number of times.
func (d *detachable) detach() {
	if d != nil && !d.alone {
		d.alone = true
		close(d.detached)
	}
}

// sync is called by a worker. No two syncs of a pod run at once: one that is under way is followed by another.
func (c *Crew) sync(ctx context.Context, key Key) (loop.Result, error) {
	d := c.beginSync(ctx, key)
	if d == nil {
		return loop.Result{}, nil
	}
	c.background.Go(func() { c.runSync(ctx, key, d) })
	select {
	case <-d.detached:
	case <-d.ended:
		if !d.alone {
			return d.result, d.err
		}
	}
	return loop.Result{}, nil
}

// beginSync returns a new sync, or nil if one is under way.
func (c *Crew) beginSync(ctx context.Context, key Key) *detachable {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := c.syncs[key]; d != nil {
		why, _ := cause.From(ctx)
		d.again = true
		d.later.Merge(&why)
		return nil
	}
	d := &detachable{detached: make(chan struct{}), ended: make(chan struct{})}
	c.syncs[key] = d
	return d
}

func (c *Crew) runSync(ctx context.Context, key Key, d *detachable) {
	d.err = queue.ErrExit // if the sync does not return
	defer func() {
		if d.alone {
			c.settle(ctx, key, d)
		}
		c.mu.Lock()
		delete(c.syncs, key)
		again, later := d.again, d.later
		c.mu.Unlock()
		for _, change := range later.Changes {
			c.loop.AddBecause(key, change)
		}
		if again {
			c.loop.Add(key)
		}
		close(d.ended)
	}()
	d.err = queue.Contain(func() (err error) {
		d.result, err = c.syncPod(ctx, key, d)
		return err
	})
}

// settle does for a sync without a worker what the loop does for others: it schedules the next one, later and later
// while they fail.
func (c *Crew) settle(ctx context.Context, key Key, d *detachable) {
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	r := c.records[key]
	c.mu.Unlock()
	if r == nil { // nothing is left of the pod
		return
	}
	if d.err == nil {
		r.retry = backoff{}
		if d.result.After > 0 {
			c.loop.AddAfter(key, d.result.After)
		}
		return
	}
	level := slog.LevelDebug
	if r.retry.delay == 0 {
		level = slog.LevelWarn
	}
	c.Logger.Log(ctx, level, "sync of a pod has failed; will retry", "pod", key, "err", d.err)
	r.retry = r.retry.next(startLimits, c.now())
	c.loop.AddAfter(key, r.retry.delay)
}
