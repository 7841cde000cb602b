package informer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/labels"
)

// Shared is an informer: one local copy, kept up to date by one list and watch, for any number of readers and handlers.
type Shared[T any] struct {
	options Options[T]
	labels  func(*version[T]) labels.Set
	equal   func(a, b T) bool
	hot     hotSet[T] // for versions that are kept encoded
	crew    crew[T]
	batch   int // how many changes a handler is told of before it is another's turn
	log     *slog.Logger

	parts     []*part
	followers []func(context.Context) error // one for each part

	synced   chan struct{} // closed when the first list is complete
	finished chan struct{} // closed when Run is about to return

	// writing serialises those who change the table: the reflectors, and AddIndex. Taken before mu.
	writing sync.Mutex

	mu       sync.RWMutex
	table    *table[T]                     // guarded by mu
	position string                        // guarded by mu: the resource version that the table shows
	tail     *change[T]                    // guarded by mu: the newest change
	count    uint64                        // guarded by mu: how many changes there have been since the first list
	handlers map[*Registration[T]]struct{} // guarded by mu
	life     context.Context               // guarded by mu: set while running
	end      context.CancelCauseFunc       // guarded by mu: set while running
	ended    bool                          // guarded by mu
	recent   recently                      // guarded by mu: if there are several parts

	unannounced uint64 // guarded by mu: changes that nobody has been woken for
	lagging     uint64 // guarded by mu: changes since the last look at who lags

	running sync.WaitGroup // counts the goroutines that call handlers

	news     signal // a change has been recorded
	progress signal // the position has moved
}

// errUnused ends an informer that nobody uses any more.
var errUnused = errors.New("the last handler has left")

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
	s.finish()
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
	for r := range s.handlers {
		s.running.Go(r.run)
	}
	return nil
}

func (s *Shared[T]) finish() {
	s.mu.Lock()
	s.ended = true
	leaving := s.handlers
	s.handlers = map[*Registration[T]]struct{}{}
	s.mu.Unlock()
	for r := range leaving {
		r.leave(ErrStopped)
	}
	s.crew.dismiss()
	s.running.Wait()
	close(s.finished)
}

// Handle adds a handler. It may join before Run or at any time while the informer runs; if the informer has stopped,
// the registration is closed from the start.
func (s *Shared[T]) Handle(handler Handler[T]) *Registration[T] {
	if handler.Name == "" {
		handler.Name = s.options.Name
	}
	leaving, leave := context.WithCancelCause(context.Background())
	r := &Registration[T]{
		owner: s, handler: handler, leaving: leaving, leave: leave,
		synced: make(chan struct{}), done: make(chan struct{}),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		leave(ErrStopped)
		close(r.done)
		return r
	}
	s.handlers[r] = struct{}{}
	if s.life != nil {
		s.running.Go(r.run)
	}
	return r
}

// forget removes a handler that leaves.
func (s *Shared[T]) forget(r *Registration[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, member := s.handlers[r]; !member {
		return
	}
	delete(s.handlers, r)
	if s.life == nil {
		close(r.done) // it was never started
	} else if len(s.handlers) == 0 && s.options.StopWhenUnused {
		s.end(errUnused)
	}
}

// HasSynced reports whether the first list is in the cache.
func (s *Shared[T]) HasSynced() bool {
	select {
	case <-s.synced:
		return true
	default:
		return false
	}
}

// Ready returns a channel that is closed when HasSynced.
func (s *Shared[T]) Ready() <-chan struct{} { return s.synced }

// Finished returns a channel that is closed when Run has ended.
func (s *Shared[T]) Finished() <-chan struct{} { return s.finished }

// Name returns the name under which the informer logs and counts.
func (s *Shared[T]) Name() string { return s.options.Name }

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

// signal lets any number of goroutines wait for the next time that something happens. It costs the one who signals
// nothing while nobody waits.
type signal struct {
	armed atomic.Pointer[chan struct{}]
}

// wait returns a channel that is closed at the next raise after this call.
func (s *signal) wait() <-chan struct{} {
	for {
		if armed := s.armed.Load(); armed != nil {
			return *armed
		}
		fresh := make(chan struct{})
		if s.armed.CompareAndSwap(nil, &fresh) {
			return fresh
		}
	}
}

func (s *signal) raise() {
	if s.armed.Load() == nil {
		return
	}
	if armed := s.armed.Swap(nil); armed != nil {
		close(*armed)
	}
}
