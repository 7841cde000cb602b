package oidc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// lookEvery is how often the file is read.
const lookEvery = 10 * time.Second

// Run fetches the keys of issuers and follows the file, until ctx ends.
func (t *Tokens) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	ends := map[*issuer]context.CancelFunc{}
	defer func() {
		for _, end := range ends {
			end()
		}
	}()
	follow := func() {
		present := map[*issuer]bool{}
		for _, i := range t.current.Load().issuers {
			present[i] = true
			if ends[i] == nil {
				its, end := context.WithCancel(ctx)
				ends[i] = end
				running.Go(func() { i.run(its) })
			}
		}
		for i, end := range ends {
			if !present[i] {
				end()
				delete(ends, i)
			}
		}
	}
	follow()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if t.o.File != "" && t.look(ctx) {
			follow()
		}
	}
}

// look uses a file that has changed, and tells whether it does. What can never be used is tried once, what may work
// later is tried again.
func (t *Tokens) look(ctx context.Context) bool {
	text, err := os.ReadFile(t.o.File)
	if err == nil && string(text) == t.read {
		return false
	}
	var g *generation
	if err == nil {
		if g, err = t.next(text); err != nil {
			t.read = string(text)
		} else {
			err = g.answer(ctx)
		}
	}
	if err != nil {
		t.metrics.reloads.Failed()
		t.o.Logger.Error("the changed authentication configuration cannot be used: the one before stays in use", "file", t.o.File, "error", err)
		return false
	}
	t.forget(g)
	t.read = string(text)
	t.current.Store(g)
	t.metrics.reloads.Reloaded(text)
	t.o.Logger.Info("the authentication configuration was read again", "file", t.o.File)
	return true
}

func (t *Tokens) next(text []byte) (*generation, error) {
	c, err := Parse(text)
	if err != nil {
		return nil, err
	}
	g, errs, err := t.generate(c)
	if !reflect.DeepEqual(c.Anonymous, t.anonymous) {
		errs = append(errs, field.Forbidden(field.NewPath("anonymous"), "changed from initial configuration file"))
	}
	return g, errors.Join(errs.ToAggregate(), err)
}

// answer waits for the answers of issuers that have not answered before.
func (g *generation) answer(ctx context.Context) error {
	for url, i := range g.issuers {
		if i.keys.Load() == nil {
			if err := i.refresh(ctx); err != nil {
				return fmt.Errorf("oidc: authenticator for issuer %q is not healthy: %w", url, err)
			}
		}
	}
	return nil
}

// forget removes what metrics say of issuers that the next configuration does not have.
func (t *Tokens) forget(next *generation) {
	for url := range t.current.Load().issuers {
		if next.issuers[url] == nil {
			t.metrics.fetches.forget(url)
		}
	}
}
