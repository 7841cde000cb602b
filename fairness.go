package millrace

import (
	"context"
	"errors"
	"time"

	"github.com/millrace/millrace/server/fairness"
	"github.com/millrace/millrace/server/registry"
)

// shareOfTimeout is the part of a request's time that it may wait for its turn.
const shareOfTimeout = 4

// divide gives requests their places by the FlowSchemas of the cluster, unless they are only to be counted.
func (c *Cluster) divide(ctx context.Context, reg *registry.Registry) error {
	o := c.options.Serving
	if o.NoFairness {
		return nil
	}
	d := fairness.New(fairness.Options{
		Registry: func() *registry.Registry { return reg }, Logger: c.options.Logger,
		Seats: or(o.MaxInFlight, 400) + or(o.MaxMutatingInFlight, 200), Patience: or(o.RequestTimeout, time.Minute) / shareOfTimeout,
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

// or is a value, or another one if it is zero or less.
func or[T int | time.Duration](v, otherwise T) T {
	if v > 0 {
		return v
	}
	return otherwise
}
