package queue

import "context"

// ShutDown stops the queue: from now on additions are ignored and delays are dropped. Keys that are ready are still
// returned by Get; after that Get fails with [ErrShutDown].
func (q *Queue[K]) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.shutDownLocked()
}

// Drain shuts the queue down and waits until every ready key was worked on, or until ctx ends. It needs running
// workers.
func (q *Queue[K]) Drain(ctx context.Context) error {
	defer context.AfterFunc(ctx, q.wakeAll)()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.shutDownLocked()
	for !q.emptyLocked() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		q.drained.Wait()
	}
	return nil
}

func (q *Queue[K]) shutDownLocked() {
	if q.closed {
		return
	}
	q.closed = true
	if q.alarm != nil {
		q.alarm.Stop()
	}
	for q.delayed.len() > 0 {
		q.releaseLocked(q.delayed.pop())
	}
	q.arrived.Broadcast()
}

func (q *Queue[K]) emptyLocked() bool {
	return q.closed && q.ready.len() == 0 && len(q.working) == 0
}
