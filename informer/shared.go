package informer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace/millrace/informer/internal/dispatch"
	"github.com/millrace/millrace/informer/internal/signal"
	"github.com/millrace/millrace/informer/internal/state"
)

// Shared is an informer: one local copy, updated by one list and watch, for any number of readers and handlers.
type Shared[T any] struct {
	options  Options[T]
	resource string // what the source lists, such as replicasets.apps; empty if it does not tell
	labels   func(*state.Version[T]) labels.Set
	equal    func(a, b T) bool
	hot      *state.HotSet[T] // nil: all objects are kept decoded
	log      *slog.Logger

	parts     []*part
	followers []func(context.Context) error // one for each part

	synced   chan struct{} // closed when the first list is complete
	finished chan struct{} // closed when Run is about to return

	// writing serialises the writers of the table: the reflectors, and AddIndex. It is taken before mu.
	writing sync.Mutex

	mu         sync.RWMutex
	table      *state.Table[T]         // guarded by mu
	position   string                  // guarded by mu: the resource version that the table shows
	runContext context.Context         // guarded by mu: set while running
	end        context.CancelCauseFunc // guarded by mu: set while running
	recent     recentRevisions         // guarded by mu: if there are several parts

	handlers *dispatch.Dispatcher[T] // its lock comes after mu
	progress signal.Signal           // the position has moved
}

// errUnused ends an informer without handlers.
var errUnused = errors.New("the last handler has left")

// newShared makes an informer without parts.
func newShared[T any](options Options[T]) *Shared[T] {
	options = options.withDefaults()
	if options.Name == "" {
		options.Name = fmt.Sprintf("%T", *new(T))
	}
	s := &Shared[T]{
		options: options, log: options.Logger.With("informer", options.Name),
		synced: make(chan struct{}), finished: make(chan struct{}), table: state.NewTable[T](),
	}
	s.handlers = dispatch.New(dispatch.Options[T]{
		Synced: s.synced, Copy: s.copyTable, Batch: s.batch, Idle: s.sweep, Unused: s.unused, Resync: options.Resync,
	})
	for _, ix := range options.Indexes {
		s.AddIndex(ix)
	}
	return s
}

// Run lists and watches, and calls handlers, until the context ends, or with StopWhenUnused until the last handler is
// closed. It returns when everything has ended, so it waits for a handler that does not return. It can be called once.
func (s *Shared[T]) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := s.begin(ctx, cancel); err != nil {
		return err
	}
	s.log.Debug("informer has started")
	err := s.follow(ctx)
	s.handlers.Stop()
	close(s.finished)
	if ctx.Err() != nil {
		err = nil
	}
	s.log.Debug("informer has stopped", "cause", context.Cause(ctx))
	return err
}

func (s *Shared[T]) begin(ctx context.Context, cancel context.CancelCauseFunc) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runContext != nil {
		return fmt.Errorf("informer %s: %w", s.options.Name, ErrRunning)
	}
	s.runContext, s.end = ctx, cancel
	s.handlers.Start()
	return nil
}

// Handle adds a handler, before Run or at any time while the informer runs. If the informer has stopped, the
// registration is closed from the start.
func (s *Shared[T]) Handle(handler Handler[T]) *Registration[T] {
	if handler.Name == "" {
		handler.Name = s.options.Name
	}
	to := &receiver[T]{owner: s, handler: handler}
	follower := s.handlers.Add(handler.Resync, func(leaving context.Context) dispatch.Receiver[T] {
		to.leaving = leaving
		return to
	})
	return &Registration[T]{owner: s, follower: follower}
}

// unused ends the informer if StopWhenUnused is set.
func (s *Shared[T]) unused() {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.options.StopWhenUnused {
		s.end(errUnused)
	}
}

// batchSize is how many changes one handler receives before the next handler is called.
const batchSize = 64

// batch returns a size so small that what one handler has decoded is still decoded for the next.
func (s *Shared[T]) batch() int {
	if s.hot == nil {
		return batchSize
	}
	return max(1, min(batchSize, s.hot.Capacity()/4))
}

// maxSuperseded is how many superseded versions may stay decoded for handlers that have not received the change yet.
const maxSuperseded = 4 * batchSize

// sweep drops decoded objects that no handler needs, because all handlers that keep up have received the changes.
func (s *Shared[T]) sweep() {
	if s.hot != nil {
		s.hot.Sweep(0)
	}
}

// Name returns the informer's name in logs and metrics.
func (s *Shared[T]) Name() string { return s.options.Name }

// HasSynced reports whether the first list is in the cache.
func (s *Shared[T]) HasSynced() bool { return closed(s.synced) }

// Synced waits until HasSynced. If the context ends first, the error includes that of the last list or watch.
func (s *Shared[T]) Synced(ctx context.Context) error {
	if s.HasSynced() {
		return nil
	}
	select {
	case <-s.synced:
		return nil
	case <-s.finished:
		return fmt.Errorf("informer %s: %w", s.options.Name, ErrStopped)
	case <-ctx.Done():
		return s.notSyncedError(ctx)
	}
}

// Done returns a channel that is closed when Run has ended.
func (s *Shared[T]) Done() <-chan struct{} { return s.finished }

func (s *Shared[T]) notSyncedError(ctx context.Context) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	cause := context.Cause(ctx)
	trouble := s.troublesLocked()
	switch {
	case trouble != nil:
		return fmt.Errorf("informer %s has not synced: %w (last error: %w)", s.options.Name, cause, trouble)
	case s.runContext == nil:
		return fmt.Errorf("informer %s has not synced: %w (it was not started)", s.options.Name, cause)
	}
	return fmt.Errorf("informer %s has not synced: %w", s.options.Name, cause)
}

// failed records and reports an error of a list or watch.
func (s *Shared[T]) failed(p *part, err error) {
	s.mu.Lock()
	p.lastError = err
	s.mu.Unlock()
	s.options.Metrics.Failed(s.options.Name)
	s.report(err)
}

func (s *Shared[T]) report(err error) {
	s.log.Warn("informer has trouble", "error", err)
	s.options.OnError(err)
}

func (s *Shared[T]) panicked(p *HandlerPanic) {
	s.options.Metrics.Panicked(s.options.Name)
	s.log.Error("handler panicked", "handler", p.Handler, "key", p.Key, "value", p.Value, "stack", string(p.Stack))
	s.options.OnError(p)
}
