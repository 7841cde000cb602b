package watchcache

import (
	"context"
	"sync"

	"github.com/millrace/millrace/server/store"
)

// question lets those who ask the store for its revision at the same time share the answer. An answer is only good for
// who came before it was asked for, so whoever comes while a question is under way waits for the next one.
type question struct {
	mu   sync.Mutex
	busy bool
	next *answer // what those who wait for the next question will get
}

type answer struct {
	turn chan struct{} // closed when the one who made this answer may ask
	done chan struct{} // closed when there is an answer
	rev  store.Revision
	err  error
	// void says that the one who was to ask gave up: the others have to start again.
	void bool
}

func (q *question) ask(ctx context.Context, ask func(context.Context) (store.Revision, error)) (store.Revision, error) {
	for {
		a, mine := q.join()
		if mine {
			return q.lead(ctx, a, ask)
		}
		select {
		case <-a.done:
			if !a.void {
				return a.rev, a.err
			}
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// join returns the next answer, and whether the caller is the one who has to ask for it.
func (q *question) join() (a *answer, mine bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.next != nil {
		return q.next, false
	}
	q.next = &answer{turn: make(chan struct{}), done: make(chan struct{})}
	if !q.busy {
		q.startLocked()
	}
	return q.next, true
}

// startLocked lets one of the waiting callers ask the store.
func (q *question) startLocked() {
	q.busy = q.next != nil
	if q.busy {
		close(q.next.turn)
	}
}

// lead waits for its turn and asks, for itself and all who have joined until then.
func (q *question) lead(ctx context.Context, a *answer, ask func(context.Context) (store.Revision, error)) (store.Revision, error) {
	select {
	case <-a.turn:
	case <-ctx.Done():
		return 0, q.giveUp(ctx, a)
	}
	q.mu.Lock()
	q.next = nil // nobody joins from here on
	q.mu.Unlock()
	a.rev, a.err = ask(ctx)
	a.void = ctx.Err() != nil // then the error may be about us and not about the store
	q.mu.Lock()
	defer q.mu.Unlock()
	close(a.done)
	q.startLocked()
	return a.rev, a.err
}

func (q *question) giveUp(ctx context.Context, a *answer) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.next = nil
	a.void = true
	close(a.done)
	select {
	case <-a.turn: // it came just now, and nobody is left to take it
		q.startLocked()
	default:
	}
	return context.Cause(ctx)
}
