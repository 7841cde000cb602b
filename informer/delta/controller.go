package delta

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/millrace/millrace/informer"
)

// Config says what a Controller does.
type Config[T informer.Object] struct {
	// Source is what it follows, and Queue what it passes the changes through.
	Source informer.Source[T]
	Queue  *FIFO[T]
	// Process handles the changes of one object. It runs under the queue's lock: see FIFO.
	Process func(deltas Deltas[T], initial bool) error
	// RetryOnError puts an object back into the queue when Process fails for it.
	RetryOnError bool
	// Options are those of the reflector. Resync is how often everything is processed again.
	Options informer.Options[T]
}

// Controller runs a reflector into a queue and processes what comes out of it.
type Controller[T informer.Object] struct {
	config    Config[T]
	reflector *informer.Reflector[T]
}

// NewController returns a controller. It does nothing until Run.
func NewController[T informer.Object](config Config[T]) *Controller[T] {
	return &Controller[T]{config: config, reflector: informer.NewReflector(config.Source, config.Queue, config.Options)}
}

// Run follows the source until the context ends. Then the queue is closed, and what is in it is left.
func (c *Controller[T]) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	defer c.config.Queue.Close()
	running.Go(func() { _ = c.reflector.Run(ctx) }) // it returns nothing but nil
	for {
		_, err := c.config.Queue.Pop(ctx, c.process)
		switch {
		case ctx.Err() != nil || errors.Is(err, ErrClosed):
			return nil
		case err != nil:
			c.report(err)
		}
	}
}

func (c *Controller[T]) report(err error) {
	o := &c.config.Options
	if o.Logger != nil {
		o.Logger.Warn("controller has trouble", "informer", o.Name, "error", err)
	}
	if o.OnError != nil {
		o.OnError(err)
	}
}

func (c *Controller[T]) process(deltas Deltas[T], initial bool) error {
	err := c.config.Process(deltas, initial)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("process %s: %w", c.config.Queue.KeyOf(deltas.Newest().Object), err)
	if c.config.RetryOnError && !errors.Is(err, ErrRequeue) {
		err = fmt.Errorf("%w: %w", ErrRequeue, err)
	}
	return err
}

// HasSynced reports whether all objects of the first list have been processed.
func (c *Controller[T]) HasSynced() bool { return c.config.Queue.HasSynced() }

// LastResourceVersion returns how far the controller has read.
func (c *Controller[T]) LastResourceVersion() string { return c.reflector.LastResourceVersion() }

// Mirror is what Kubernetes calls NewInformer, a source and functions in, a store and a controller out: it returns a store that mirrors the source while the controller runs, and calls the
// handler's functions after each change of it, in the controller's goroutine.
func Mirror[T informer.Object](source informer.Source[T], handler informer.Handler[T], options informer.Options[T]) (*informer.Store[T], *Controller[T]) {
	store := informer.NewStore(informer.StoreOptions[T]{Indexes: options.Indexes})
	queue := NewFIFO(FIFOOptions[T]{Known: store})
	return store, NewController(Config[T]{
		Source: source, Queue: queue, Options: options,
		Process: func(deltas Deltas[T], initial bool) error {
			for _, d := range deltas {
				mirror(store, &handler, d, initial)
			}
			return nil
		},
	})
}

// mirror applies one delta to the store and tells the handler. A store's changes cannot fail.
func mirror[T informer.Object](store *informer.Store[T], handler *informer.Handler[T], d Delta[T], initial bool) {
	key := informer.KeyOf(d.Object)
	old, known := store.Lookup(key)
	switch {
	case d.Type == Deleted:
		_ = store.Delete(d.Object)
		if handler.Deleted != nil {
			handler.Deleted(d.Object, d.FinalStateUnknown)
		}
	case known:
		_ = store.Update(d.Object)
		if handler.Updated != nil {
			handler.Updated(old, d.Object)
		}
	default:
		_ = store.Add(d.Object)
		if handler.Added != nil {
			handler.Added(d.Object, initial)
		}
	}
	if handler.Changed != nil {
		handler.Changed(key)
	}
}
