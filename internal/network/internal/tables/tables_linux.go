// Package tables updates tables of the kernel's nf_tables when a node's informers change.
//
// A Writer calls Sync after Trigger, once for any number of triggers, and again with a growing delay while Sync fails.
// Sync and Modified are never called at the same time.
package tables

import (
	"context"
	"log/slog"
	"time"

	"github.com/millrace/millrace/internal/network/nft"
	"github.com/millrace/millrace/loop"
)

// Options configure a Writer. Name, Sync, Modified and Failed must be set.
type Options struct {
	// Name is the tables' name in the log.
	Name string
	// Sync writes the tables.
	Sync func() error
	// Modified reports whether another program has changed the tables, so that they must be written again.
	Modified func() bool
	// Failed is called after an error of Sync: the content of the tables is unknown.
	Failed func()
	// Check is how often Modified is called. Default 5 s.
	Check  time.Duration
	Logger *slog.Logger // nil: discard
}

// Writer writes tables when they must change.
type Writer struct {
	options Options
	changed chan struct{} // holds one entry after a Trigger
	ready   chan struct{} // closed when the tables have been written for the first time
}

// New makes a Writer.
func New(o Options) *Writer {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Check <= 0 {
		o.Check = 5 * time.Second
	}
	return &Writer{options: o, changed: make(chan struct{}, 1), ready: make(chan struct{})}
}

// Ready returns a channel that is closed when the tables have been written for the first time.
func (w *Writer) Ready() <-chan struct{} { return w.ready }

// Trigger makes the Writer call Sync.
func (w *Writer) Trigger() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// Registration is a handler of an informer.
type Registration interface {
	Close()
	Done() <-chan struct{}
}

// Run writes the tables when the informers have synced, and updates them until the context ends. It closes the
// registrations.
func (w *Writer) Run(ctx context.Context, registrations []Registration, from ...loop.Cache) error {
	defer func() {
		for _, r := range registrations {
			r.Close()
			<-r.Done()
		}
	}()
	for _, c := range from {
		if err := c.Synced(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
	w.Trigger()
	w.writeLoop(ctx)
	return nil
}

// The delays after a failure.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 30 * time.Second
)

// writeLoop calls Sync after triggers, and when another program has changed the tables.
func (w *Writer) writeLoop(ctx context.Context) {
	check := time.NewTicker(w.options.Check)
	defer check.Stop()
	pause := firstPause
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.changed:
		case <-check.C:
			if !w.options.Modified() {
				continue
			}
		}
		err := w.options.Sync()
		if err == nil {
			pause = firstPause
			w.markReady()
			continue
		}
		w.options.Logger.Error("the tables of a node could not be written", "of", w.options.Name, "err", err)
		w.options.Failed()
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, longestPause)
		w.Trigger()
	}
}

func (w *Writer) markReady() {
	select {
	case <-w.ready:
	default:
		close(w.ready)
	}
}

// Remove removes these tables from the network namespace of the calling thread, where they exist.
func Remove(all ...nft.Table) error {
	conn, err := nft.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	var b nft.Batch
	for _, t := range all {
		_, exists, err := conn.Comment(t)
		if err != nil {
			return err
		}
		if exists {
			b.DeleteTable(t)
		}
	}
	if b.Len() == 0 {
		return nil
	}
	return conn.Commit(&b)
}
