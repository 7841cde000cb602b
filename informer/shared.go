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

// Shared is an informer: one local copy, kept up to date by one list and watch, for any number of readers and handlers.
type Shared[T any] struct {
	options Options[T]
	labels  func(*state.Version[T]) labels.Set
	equal   func(a, b T) bool
	hot     *state.HotSet[T] // nil: all objects are kept decoded
	log     *slog.Logger

	parts     []*part
	followers []func(context.Context) error // one for each part

	synced   chan struct{} // closed when the first list is complete
	finished chan struct{} // closed when Run is about to return

	// writing serialises those who change the table: the reflectors, and AddIndex. Taken before mu.
	writing sync.Mutex

	mu       sync.RWMutex
	table    *state.Table[T]         // guarded by mu
	position string                  // guarded by mu: the resource version that the table shows
	life     context.Context         // guarded by mu: set while running
	end      context.CancelCauseFunc // guarded by mu: set while running
	recent   recentRevisions         // guarded by mu: if there are several parts

	handlers *dispatch.Dispatcher[T] // its lock comes after mu
	progress signal.Signal           // the position has moved
}

// errUnused ends an informer that nobody uses any more.
var errUnused = errors.New("the last handler has left")

// newShared puts the parts together.
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

// Run lists and watches, and calls handlers, until the context ends, or until the last handler leaves if that was asked
// for. It returns when all that is over, so a handler that never returns keeps it. It can be called once.
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
	if s.life != nil {
		return fmt.Errorf("informer %s: %w", s.options.Name, ErrRunning)
	}
	s.life, s.end = ctx, cancel
	s.handlers.Start()
	return nil
}

// Handle adds a handler. It may join before Run or at any time while the informer runs; if the informer has stopped,
// the registration is closed from the start.
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

// unused ends the informer if it was asked to end with its last handler.
func (s *Shared[T]) unused() {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.options.StopWhenUnused {
		s.end(errUnused)
	}
}

// batchSize is how many changes one handler is told of before it is another's turn.
const batchSize = 64

// batch keeps a batch small enough for the next handler to find decoded what one handler has decoded.
func (s *Shared[T]) batch() int {
	if s.hot == nil {
		return batchSize
	}
	return max(1, min(batchSize, s.hot.Room()/4))
}

// maxSuperseded is how many superseded versions may stay decoded for handlers that have not been told of the change yet.
const maxSuperseded = 4 * batchSize

// sweep drops decoded objects that no handler needs, as all that keep up have been told.
func (s *Shared[T]) sweep() {
	if s.hot != nil {
		s.hot.Sweep(0)
	}
}

// Name returns the name under which the informer logs and counts.
func (s *Shared[T]) Name() string { return s.options.Name }

// HasSynced reports whether the first list is in the cache.
func (s *Shared[T]) HasSynced() bool { return closed(s.synced) }

// Synced waits until HasSynced. If the context ends first, the error says what went wrong with the last list or watch.
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
		return s.whyNotSynced(ctx)
	}
}

// Done returns a channel that is closed when Run has ended.
func (s *Shared[T]) Done() <-chan struct{} { return s.finished }

func (s *Shared[T]) whyNotSynced(ctx context.Context) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	cause := context.Cause(ctx)
	trouble := s.troublesLocked()
	switch {
	case trouble != nil:
		return fmt.Errorf("informer %s has not synced: %w (last error: %w)", s.options.Name, cause, trouble)
	case s.life == nil:
		return fmt.Errorf("informer %s has not synced: %w (it was not started)", s.options.Name, cause)
	}
	return fmt.Errorf("informer %s has not synced: %w", s.options.Name, cause)
}

// failed remembers and reports an error of the list and watch.
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
