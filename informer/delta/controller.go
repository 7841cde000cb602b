package delta

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/millrace/millrace/informer"
)

// Config configures a Controller.
type Config[T informer.Object] struct {
	// Source is listed and watched. Its changes go through Queue.
	Source informer.Source[T]
	Queue  *FIFO[T]
	// Process handles the changes of one object. It is called while the queue's lock is held: see FIFO.
	Process func(deltas Deltas[T], initial bool) error
	// RetryOnError puts an object back into the queue when Process fails for it.
	RetryOnError bool
	// Options are the reflector's options. Resync is how often every object is processed again.
	Options informer.Options[T]
}

// Controller runs a reflector that fills a queue, and processes the changes from the queue.
type Controller[T informer.Object] struct {
	config    Config[T]
	reflector *informer.Reflector[T]
}

// NewController returns a controller. It does nothing until Run.
func NewController[T informer.Object](config Config[T]) *Controller[T] {
	return &Controller[T]{config: config, reflector: informer.NewReflector(config.Source, config.Queue, config.Options)}
}

// Run follows the source until the context ends. Then it closes the queue; what is still queued is not processed.
func (c *Controller[T]) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	defer c.config.Queue.Close()
	running.Go(func() { _ = c.reflector.Run(ctx) }) // it always returns nil
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

// LastResourceVersion returns the resource version that the reflector has reached.
func (c *Controller[T]) LastResourceVersion() string { return c.reflector.LastResourceVersion() }

// Mirror is what client-go calls NewInformer. It returns a store that mirrors the source while the controller runs.
// After each change of the store the controller calls the handler's functions, in its own goroutine.
func Mirror[T informer.Object](source informer.Source[T], handler informer.Handler[T], options informer.Options[T]) (*informer.Store[T], *Controller[T]) {
	store := informer.NewStore(informer.StoreOptions[T]{Indexes: options.Indexes})
	queue := NewFIFO(FIFOOptions[T]{KnownObjects: store})
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

// mirror applies one delta to the store and calls the handler. A store's changes cannot fail.
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
