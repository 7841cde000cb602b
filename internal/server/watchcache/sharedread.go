package watchcache

import (
	"context"
	"sync"

	"github.com/millrace/millrace/internal/server/store"
)

// sharedRead lets concurrent callers share one request for the store's revision. An answer is valid only for callers
// that came before its request was sent, so a caller that comes while a request is in flight waits for the next one.
type sharedRead struct {
	mu   sync.Mutex
	busy bool
	next *answer // the answer to the next request
}

type answer struct {
	mayAsk chan struct{} // closed when the caller that leads this answer may send its request
	done   chan struct{} // closed when there is an answer
	rev    store.Revision
	err    error
	// abandoned says that the leading caller gave up: the others have to start again.
	abandoned bool
}

func (s *sharedRead) ask(ctx context.Context, ask func(context.Context) (store.Revision, error)) (store.Revision, error) {
	for {
		a, mine := s.join()
		if mine {
			return s.lead(ctx, a, ask)
		}
		select {
		case <-a.done:
			if !a.abandoned {
				return a.rev, a.err
			}
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// join returns the next answer, and whether the caller has to send the request for it.
func (s *sharedRead) join() (a *answer, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		return s.next, false
	}
	s.next = &answer{mayAsk: make(chan struct{}), done: make(chan struct{})}
	if !s.busy {
		s.startLocked()
	}
	return s.next, true
}

// startLocked lets one of the waiting callers ask the store.
func (s *sharedRead) startLocked() {
	s.busy = s.next != nil
	if s.busy {
		close(s.next.mayAsk)
	}
}

// lead waits until it may send the request, and sends it for itself and for all that have joined until then.
func (s *sharedRead) lead(ctx context.Context, a *answer, ask func(context.Context) (store.Revision, error)) (store.Revision, error) {
	select {
	case <-a.mayAsk:
	case <-ctx.Done():
		return 0, s.giveUp(ctx, a)
	}
	s.mu.Lock()
	s.next = nil // no caller can join from here on
	s.mu.Unlock()
	a.rev, a.err = ask(ctx)
	a.abandoned = ctx.Err() != nil // then the error may come from this caller's context, and not from the store
	s.mu.Lock()
	defer s.mu.Unlock()
	close(a.done)
	s.startLocked()
	return a.rev, a.err
}

func (s *sharedRead) giveUp(ctx context.Context, a *answer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = nil
	a.abandoned = true
	close(a.done)
	select {
	case <-a.mayAsk: // it was closed at the same moment, and no other caller would take it
		s.startLocked()
	default:
	}
	return context.Cause(ctx)
}
