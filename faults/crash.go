package faults

import (
	"context"
	"fmt"
	"io"
	"time"
)

// errCrashed is the error of requests of a client that has crashed by plan.
var errCrashed = fmt.Errorf("%w: the client has crashed", ErrInjected)

// reachable returns why a request does not reach the server at all, or nil.
func (t *Transport) reachable() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reachableLocked()
}

func (t *Transport) reachableLocked() error {
	switch {
	case t.crashed:
		return errCrashed
	case !t.healed && time.Now().Before(t.downTill):
		return fmt.Errorf("%w: the server restarts", ErrInjected)
	}
	return nil
}

// opened registers a watch, with the function that ends it.
func (t *Transport) opened(w *watching, end context.CancelCauseFunc) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.reachableLocked(); err != nil {
		return err
	}
	t.watches[w] = end
	return nil
}

func (t *Transport) closed(w *watching) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if end := t.watches[w]; end != nil {
		end(io.EOF)
		delete(t.watches, w)
	}
}

func (t *Transport) cutWatchesLocked(why error) {
	for w, end := range t.watches {
		end(why)
		delete(t.watches, w)
	}
}

// Down takes the server away for a while from now on, as the fault of that name does at a request: watches are cut, and
// no request reaches the server. It is not among what [Transport.Happened] returns.
func (t *Transport) Down(lasts time.Duration) { t.restart(Rule{Fault: Down, For: lasts}) }

// restart blocks all requests for a while, and cuts the watches.
func (t *Transport) restart(r Rule) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.downTill = time.Now().Add(r.lasts())
	t.cutWatchesLocked(r.failure())
}

func (t *Transport) crash(r Rule) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.crashed = true
	t.cutWatchesLocked(r.failure())
	if t.onCrash != nil {
		t.onCrash()
	}
}

// Run runs a program that uses this transport until it ends or ctx does. When it crashes by plan, its context ends;
// when it has returned it is started again, with nothing but what the API has. In between, none of its requests reaches
// the server.
func (t *Transport) Run(ctx context.Context, program func(context.Context) error) error {
	for {
		within, cancel := context.WithCancelCause(ctx)
		t.starts(func() { cancel(errCrashed) })
		err := program(within)
		crashed := context.Cause(within) == errCrashed
		cancel(context.Canceled)
		if !crashed {
			return err
		}
	}
}

// starts lets requests through again.
func (t *Transport) starts(onCrash func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.crashed, t.onCrash = false, onCrash
}
