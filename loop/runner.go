package loop

import (
	"context"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/sleep"
)

// Runner is anything that runs until its context ends. Run returns nil then, or an error if it could not continue, but
// never before everything that it started has stopped.
type Runner interface {
	Run(ctx context.Context) error
}

// Func is a function that is a Runner.
type Func func(ctx context.Context) error

// Run calls f.
func (f Func) Run(ctx context.Context) error { return f(ctx) }

// Every calls f at once, and again each time d has passed since the last call ended, until f returns an error or ctx
// ends.
func Every(d time.Duration, f func(ctx context.Context) error) Runner {
	return Func(func(ctx context.Context) error {
		for ctx.Err() == nil {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				return err
			}
			sleep.For(ctx, d)
		}
		return nil
	})
}

// Join runs runners together. The first error stops all of them, and is returned when the last has stopped.
func Join(runners ...Runner) Runner {
	return Func(func(ctx context.Context) error {
		together, stop := context.WithCancel(ctx)
		defer stop()
		var all sync.WaitGroup
		var first error
		var failed sync.Once
		for _, r := range runners {
			all.Go(func() {
				if err := r.Run(together); err != nil {
					failed.Do(func() { first = err })
					stop()
				}
			})
		}
		all.Wait()
		return first
	})
}

// Run runs clients and, on top of them, runners, until ctx ends or one of them fails. It stops the runners first, then
// the clients.
func Run(ctx context.Context, clients *Clients, runners ...Runner) error {
	top, stopTop := context.WithCancel(ctx)
	defer stopTop()
	ground, stopGround := context.WithCancel(context.WithoutCancel(ctx))
	return Join(
		Func(func(context.Context) error {
			defer stopTop()
			return clients.Run(ground)
		}),
		Func(func(context.Context) error {
			defer stopGround()
			return Join(runners...).Run(top)
		}),
	).Run(context.WithoutCancel(ctx))
}
