package credentials

import (
	"context"
	"errors"
	"time"

	"github.com/millrace/millrace/internal/sleep"
)

const (
	firstPause = 2 * time.Second
	maxPause   = time.Minute
	// lookEvery is how often Template is checked for changes, such as new addresses of the node.
	lookEvery = time.Minute
)

// Ensure waits until there is a valid certificate.
func (r *Rotating) Ensure(ctx context.Context) error {
	for pause := firstPause; !r.Good(); pause = min(2*pause, maxPause) {
		err := r.Renew(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		r.options.Logger.Warn("no certificate yet", "certificate", r.options.Name, "err", err)
		if !sleep.For(ctx, pause) {
			return errors.Join(context.Cause(ctx), err)
		}
	}
	return nil
}

// Run renews the certificate in time until ctx ends.
func (r *Rotating) Run(ctx context.Context) error {
	for {
		if err := r.Ensure(ctx); err != nil {
			return nil // ctx has ended
		}
		due := renewal(r.Certificate().Leaf)
		for r.Good() && time.Now().Before(due) {
			if !sleep.For(ctx, min(time.Until(due), lookEvery)) {
				return nil
			}
		}
		for pause := firstPause; r.Good(); pause = min(2*pause, maxPause) {
			err := r.Renew(ctx)
			if err == nil {
				break
			}
			r.options.Logger.Warn("a certificate could not be renewed", "certificate", r.options.Name, "until", r.Certificate().Leaf.NotAfter, "err", err)
			if !sleep.For(ctx, pause) {
				return nil
			}
		}
	}
}

// Renew requests a certificate, stores it and uses it from then on.
func (r *Rotating) Renew(ctx context.Context) error {
	certificate, text, err := r.request(ctx)
	if err != nil {
		return err
	}
	if err := r.write(text); err != nil {
		return err
	}
	r.current.Store(certificate)
	r.options.Logger.Info("a certificate was issued", "certificate", r.options.Name, "until", certificate.Leaf.NotAfter)
	if r.options.Exchanged != nil {
		r.options.Exchanged()
	}
	return nil
}
