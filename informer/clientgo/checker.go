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

// checks close channels when something has synced. They wait in goroutines of their own, while the informer runs.
type checks struct {
	mu      sync.Mutex
	life    context.Context // guarded by mu: nil until the informer runs
	waiting []func()        // guarded by mu: checks that begin when it does
	running sync.WaitGroup
}

// add returns a channel that is closed when the function, which waits, has returned without an error.
func (c *checks) add(synced func(context.Context) error) <-chan struct{} {
	done := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	begin := func() {
		life := c.life
		c.running.Go(func() {
			if synced(life) == nil {
				close(done)
			}
		})
	}
	switch {
	case c.life == nil:
		c.waiting = append(c.waiting, begin)
	case c.life.Err() == nil:
		begin()
	case synced(c.life) == nil: // the informer has ended, so this does not wait
		close(done)
	}
	return done
}

// run begins the checks, which end with the context. The function that it returns waits for them.
func (c *checks) run(ctx context.Context) (wait func()) {
	life, cancel := context.WithCancel(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.life = life
	for _, begin := range c.waiting {
		begin()
	}
	c.waiting = nil
	return func() {
		c.mu.Lock()
		cancel() // under the lock, so that no check begins after this
		c.mu.Unlock()
		c.running.Wait()
	}
}
