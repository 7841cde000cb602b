package storetest

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/server/store"
)

// LateLog is a store whose watches deliver late: by a delay, or not before a hold ends. Its reads and writes are as
// fast as ever, so whoever decides by what a watch has delivered decides by an old state. Nothing is lost, and the
// order stays.
//
// Several servers on one store each get a LateLog of their own: then one can be behind while the others are not.
type LateLog struct {
	store.Store

	mu    sync.Mutex // guards everything below
	delay time.Duration
	held  chan struct{} // closed when the hold ends; nil if there is none
}

// NewLateLog wraps a store. Until Delay or Hold is called, its watches deliver at once. Closing it closes s.
func NewLateLog(s store.Store) *LateLog { return &LateLog{Store: s} }

// Delay lets every batch that a watch gets from now on arrive that much later. Zero ends the delay.
func (l *LateLog) Delay(by time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = by
}

// Hold keeps back all that watches have not delivered yet, until release is called. Of two holds, the earlier one ends
// when the later one begins.
func (l *LateLog) Hold() (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held != nil {
		close(l.held)
	}
	held := make(chan struct{})
	l.held = held
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.held == held {
			l.held = nil
			close(held)
		}
	}
}

// Watch implements store.Store.
func (l *LateLog) Watch(ctx context.Context, prefix string, after store.Revision, sink func(store.Batch) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	q := &lateBatches{arrived: make(chan struct{}, 1)}
	var delivering sync.WaitGroup
	delivering.Go(func() { cancel(q.deliver(ctx, l, sink)) })
	err := l.Store.Watch(ctx, prefix, after, func(b store.Batch) error {
		q.add(keep(b), l.due())
		return nil
	})
	q.end()
	delivering.Wait()
	if q.refused != nil {
		return q.refused
	}
	return err
}

func (l *LateLog) due() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Add(l.delay)
}

// wait waits until a batch that is due may be delivered.
func (l *LateLog) wait(ctx context.Context, due time.Time) error {
	if left := time.Until(due); left > 0 {
		timer := time.NewTimer(left)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for {
		l.mu.Lock()
		held := l.held
		l.mu.Unlock()
		if held == nil {
			return ctx.Err()
		}
		select {
		case <-held:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// keep copies what the store may use again after the call.
func keep(b store.Batch) store.Batch {
	b.Events = slices.Clone(b.Events)
	for i := range b.Events {
		b.Events[i].Value = bytes.Clone(b.Events[i].Value)
	}
	return b
}

// lateBatches are the batches of one watch that are not delivered yet.
type lateBatches struct {
	arrived chan struct{} // wakes deliver
	refused error         // the sink's error; read it after deliver has returned

	mu    sync.Mutex // guards everything below
	all   []lateBatch
	ended bool
}

type lateBatch struct {
	store.Batch
	due time.Time
}

func (lb *lateBatches) add(b store.Batch, due time.Time) {
	lb.mu.Lock()
	lb.all = append(lb.all, lateBatch{b, due})
	lb.mu.Unlock()
	lb.wake()
}

// end lets deliver return after what has arrived by now.
func (lb *lateBatches) end() {
	lb.mu.Lock()
	lb.ended = true
	lb.mu.Unlock()
	lb.wake()
}

func (lb *lateBatches) wake() {
	select {
	case lb.arrived <- struct{}{}:
	default:
	}
}

// deliver passes the batches on when they are due. It returns why it has stopped: an error of the sink, the end of ctx,
// or nil after the last batch.
func (lb *lateBatches) deliver(ctx context.Context, l *LateLog, sink func(store.Batch) error) error {
	for {
		next, ended := lb.next()
		switch {
		case next != nil:
			if err := l.wait(ctx, next.due); err != nil {
				return err
			}
			if lb.refused = sink(next.Batch); lb.refused != nil {
				return lb.refused
			}
			continue
		case ended:
			return nil
		}
		select {
		case <-lb.arrived:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (lb *lateBatches) next() (*lateBatch, bool) {
	lb.mu.Lock()
	defer lb.mu.Unlock()
	if len(lb.all) == 0 {
		return nil, lb.ended
	}
	next := lb.all[0]
	lb.all = lb.all[1:]
	return &next, false
}
