package watchcache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/sleep"
)

// formInterval is how often unused forms are dropped. A form is dropped once it was not used for one to two times that.
const formInterval = 15 * time.Second

// Run fills the cache and keeps it up to date until ctx ends. If the store is lost, Run resumes the log where it was
// lost, if possible; otherwise it refills the cache. It may be called once.
func (c *Cache) Run(ctx context.Context) error {
	if c.running.Swap(true) {
		return errors.New("watch cache runs already")
	}
	defer c.stop()
	var keeping sync.WaitGroup
	defer keeping.Wait()
	ends, cancel := context.WithCancel(ctx)
	defer cancel()
	keeping.Go(func() {
		for sleep.For(ends, formInterval) {
			c.forms.dropUnused()
		}
	})
	keeping.Go(func() { c.packAll(ends) })
	keeping.Go(func() { c.age(ends) })
	keeping.Go(func() { c.listen(ends) })
	lost := error(errNotBegun)
	for failures := 1; ; failures++ {
		before := c.batches.Load()
		err := c.attach(ctx, lost)
		if err == nil {
			err = c.follow(ctx)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		c.lost.Store(&err)
		if c.batches.Load() != before {
			failures = 1
		}
		wait := c.options.Backoff(failures)
		c.log.Warn("lost the store's log", slog.Any("err", err), slog.Duration("retry", wait))
		if !sleep.For(ctx, wait) {
			return context.Cause(ctx)
		}
		lost = err
	}
}

// attach makes the cache ready to follow the log: from where it is, if the log can be resumed there, otherwise by a
// fill.
func (c *Cache) attach(ctx context.Context, lost error) error {
	if !c.Ready() || errors.Is(lost, store.ErrCompacted) || errors.Is(lost, store.ErrFuture) {
		return c.fill(ctx)
	}
	rev, err := c.store.Revision(ctx)
	if err != nil {
		return err
	}
	if rev < c.Revision() { // this is another store
		return c.fill(ctx)
	}
	c.resumes.Add(1)
	return nil
}

// follow reads the log, and fills kinds that are added meanwhile. It returns when the log is lost.
func (c *Cache) follow(ctx context.Context) error {
	var none error
	c.lost.Store(&none)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c.letGo.Store(&cancel)
	var reader sync.WaitGroup
	defer reader.Wait()
	var lost error
	reader.Go(func() {
		lost = c.store.Watch(ctx, c.options.Root, c.Revision(), c.apply)
		if lost == nil {
			lost = fmt.Errorf("%w: the watch ended", store.ErrUnavailable)
		}
		cancel(lost) // also ends a running list
	})
	c.fillAdded(ctx)
	reader.Wait()
	if cause := context.Cause(ctx); errors.Is(cause, errWentBack) {
		return cause
	}
	return lost
}

// quiet is how long the log may bring nothing before the store is asked whether it is still the same one. A watch that
// a restored store took over can be silent for ever: it waits for a revision that comes much later.
const quiet = 10 * time.Second

// listen asks the store for its revision whenever the log was quiet, until ctx ends.
func (c *Cache) listen(ctx context.Context) {
	for before := int64(-1); sleep.For(ctx, quiet); {
		now := c.batches.Load()
		if now == before && c.Ready() && c.Lost() == nil {
			if _, err := c.Newest(ctx); err != nil && ctx.Err() == nil {
				c.log.Debug("a quiet store does not tell its revision", slog.Any("err", err))
			}
		}
		before = now
	}
}

// errWentBack says that the store's revision is lower than one that the log has shown.
var errWentBack = fmt.Errorf("the store's revision went back: %w", store.ErrUnavailable)

// fillAdded fills kinds as they are added, until ctx ends.
func (c *Cache) fillAdded(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		if err := c.fillNew(ctx); err != nil && ctx.Err() == nil {
			failures++
			c.log.Warn("could not fill a new kind", slog.Any("err", err))
			sleep.For(ctx, c.options.Backoff(failures))
			continue
		}
		failures = 0
		select {
		case <-c.added:
		case <-ctx.Done():
		}
	}
}

// stop ends all kinds, so that nothing waits for events that will not come.
func (c *Cache) stop() {
	c.mu.Lock()
	c.stopped = true
	kinds := c.Kinds()
	c.mu.Unlock()
	for _, k := range kinds {
		k.finishAndWake(endStopped)
	}
	err := error(ErrStopped)
	c.lost.Store(&err)
	close(c.ended)
}

// apply is the one writer: it applies the batches of the store's log, one after the other.
func (c *Cache) apply(b store.Batch) error {
	c.batches.Add(1)
	reached, upTo := c.Revision(), b.Revision
	routes := c.routes.Load()
	var touched []*Kind
	for _, e := range b.Events {
		upTo = max(upTo, e.Revision)
		k := routes.find(c.options.Root, e.Key)
		if k == nil {
			continue
		}
		if len(k.fresh) == 0 {
			touched = append(touched, k)
		}
		k.fresh = append(k.fresh, k.read(e))
	}
	for _, k := range touched {
		c.commit(k, upTo)
	}
	if upTo > reached {
		c.reached.set(upTo)
	}
	return nil
}

func (c *Cache) commit(k *Kind, rev store.Revision) {
	var sleepers []chan struct{}
	k.commit(k.fresh, rev, &sleepers)
	clear(k.fresh)
	k.fresh = k.fresh[:0]
	wakeAll(sleepers)
}

// wakeAll closes the channels. No lock is held meanwhile, because each goroutine that wakes wants it.
func wakeAll(sleepers []chan struct{}) {
	for _, ch := range sleepers {
		close(ch)
	}
}

func (k *Kind) finishAndWake(end *link) {
	var sleepers []chan struct{}
	k.finish(end, &sleepers)
	wakeAll(sleepers)
}
