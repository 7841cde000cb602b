package millrace

import (
	"context"
	"errors"
	"time"

	"github.com/millrace/millrace/internal/server/fairness"
	"github.com/millrace/millrace/internal/server/registry"
)

// A request may wait in a fairness queue for at most a quarter of its timeout.
const shareOfTimeout = 4

// divide starts API Priority and Fairness, unless requests are only limited by number.
func (c *Cluster) divide(ctx context.Context, reg *registry.Registry) error {
	o := c.options.Serving
	if o.NoFairness {
		return nil
	}
	d := fairness.New(fairness.Options{
		Registry: reg, Logger: c.options.Logger,
		Seats: or(o.MaxInFlight, 400) + or(o.MaxMutatingInFlight, 200), QueueWait: or(o.RequestTimeout, time.Minute) / shareOfTimeout,
	})
	if err := d.Prepare(ctx); errors.Is(err, fairness.ErrNoKinds) {
		return nil
	} else if err != nil {
		return err
	}
	c.fairness = d
	c.run("fairness", d.Run)
	return nil
}

// or returns v, or otherwise if v is zero or less.
func or[T int | time.Duration](v, otherwise T) T {
	if v > 0 {
		return v
	}
	return otherwise
}
