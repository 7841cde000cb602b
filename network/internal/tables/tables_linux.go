// Package tables keeps tables of the kernel's nf_tables as a node's informers say that they should be.
//
// A Writer calls Sync after each Nudge, however many came meanwhile, and again after a pause that grows as long as Sync fails. Sync and Look are
// never called at the same time.
package tables

import (
	"context"
	"log/slog"
	"time"

	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/network/nft"
)

// Options configure a Writer. Name, Sync, Look and Failed must be set.
type Options struct {
	// Name is what the tables are for, as the log calls it.
	Name string
	// Sync makes the tables what they should be now.
	Sync func() error
	// Look tells whether somebody else has changed the tables, so that they must be written.
	Look func() bool
	// Failed is called after an error of Sync: nobody knows what the tables are.
	Failed func()
	// Check is how often Look is called. Default 5 s.
	Check  time.Duration
	Logger *slog.Logger // nil: discard
}

// Writer keeps tables.
type Writer struct {
	options Options
	news    chan struct{} // holds one entry if anything has changed
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
	return &Writer{options: o, news: make(chan struct{}, 1), ready: make(chan struct{})}
}

// Ready returns a channel that is closed when the tables have been written for the first time.
func (w *Writer) Ready() <-chan struct{} { return w.ready }

// Nudge says that something has changed.
func (w *Writer) Nudge() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// Registration is a handler of an informer.
type Registration interface {
	Close()
	Done() <-chan struct{}
}

// Run writes the tables when the informers have their first list, and keeps them until the context ends. It closes the registrations.
func (w *Writer) Run(ctx context.Context, heard []Registration, from ...loop.Cache) error {
	defer func() {
		for _, r := range heard {
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
	w.Nudge()
	w.keep(ctx)
	return nil
}

// The pauses after a failure.
const (
	firstPause = 100 * time.Millisecond
	mostPause  = 30 * time.Second
)

// keep writes what changed, and looks from time to time whether the tables are as they were left.
func (w *Writer) keep(ctx context.Context) {
	check := time.NewTicker(w.options.Check)
	defer check.Stop()
	pause := firstPause
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.news:
		case <-check.C:
			if !w.options.Look() {
				continue
			}
		}
		err := w.options.Sync()
		if err == nil {
			pause = firstPause
			w.written()
			continue
		}
		w.options.Logger.Error("the tables of a node could not be written", "of", w.options.Name, "err", err)
		w.options.Failed()
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, mostPause)
		w.Nudge()
	}
}

func (w *Writer) written() {
	select {
	case <-w.ready:
	default:
		close(w.ready)
	}
}

// Remove removes those of some tables that are in the network namespace of the calling thread.
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
