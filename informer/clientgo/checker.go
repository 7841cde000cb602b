package clientgo

import (
	"context"
	"sync"
)

// checker is a cache.DoneChecker.
type checker struct {
	name string
	done <-chan struct{}
}

func (c checker) Name() string          { return c.name }
func (c checker) Done() <-chan struct{} { return c.done }

// checks waits for things to sync, each in its own goroutine, while the informer runs. A channel is closed when its
// thing has synced.
type checks struct {
	mu         sync.Mutex
	runContext context.Context // guarded by mu: nil until the informer runs
	waiting    []func()        // guarded by mu: checks that start when the informer runs
	running    sync.WaitGroup
}

// add returns a channel that is closed when the function returns nil. The function waits until something has synced.
func (c *checks) add(synced func(context.Context) error) <-chan struct{} {
	done := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	begin := func() {
		runContext := c.runContext
		c.running.Go(func() {
			if synced(runContext) == nil {
				close(done)
			}
		})
	}
	switch {
	case c.runContext == nil:
		c.waiting = append(c.waiting, begin)
	case c.runContext.Err() == nil:
		begin()
	case synced(c.runContext) == nil: // the informer has ended, so this does not wait
		close(done)
	}
	return done
}

// run starts the checks, which end with the context. The returned function waits for their goroutines.
func (c *checks) run(ctx context.Context) (wait func()) {
	runContext, cancel := context.WithCancel(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runContext = runContext
	for _, begin := range c.waiting {
		begin()
	}
	c.waiting = nil
	return func() {
		c.mu.Lock()
		cancel() // while mu is held, so that no check starts afterwards
		c.mu.Unlock()
		c.running.Wait()
	}
}
