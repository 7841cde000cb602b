package loop

import (
	"context"
	"sync"

	"github.com/millrace/millrace/queue"
)

// widest is how many writes of a SlowStart are under way at once. More of them
// would not be done sooner, and each takes a stack and buffers.
const widest = 64

// SlowStart calls write for 0 to count-1, in batches of 1, 2, 4, 8 and so on up
// to 32, each batch in parallel, and then the rest, 64 at a time. No call begins after
// the batch in which one failed, or, in the last batch, after one that failed: when
// all would fail for the same reason, few are tried. It returns how many
// succeeded, and the first error.
func SlowStart(ctx context.Context, count int, write func(ctx context.Context, i int) error) (done int, err error) {
	for first, size := 0, 1; first < count; first, size = first+size, 2*size {
		if size >= widest {
			size = count - first
		}
		b := batch{next: first, end: min(first+size, count), write: func(i int) error { return write(ctx, i) }}
		b.run(ctx, size < widest)
		done += b.succeeded
		if b.failure != nil {
			return done, b.failure
		}
	}
	return done, nil
}

// batch is a number of writes that are done in parallel.
type batch struct {
	write func(i int) error

	mu        sync.Mutex
	next, end int   // guarded by mu: what is still to be begun
	succeeded int   // guarded by mu
	failure   error // guarded by mu: the first
}

// run does the batch. A whole one is done to its end though some of it fails.
func (b *batch) run(ctx context.Context, whole bool) {
	var all sync.WaitGroup
	for range min(widest, b.end-b.next) {
		all.Go(func() {
			for {
				i, ok := b.begin(ctx, whole)
				if !ok {
					return
				}
				b.ended(queue.Contain(func() error { return b.write(i) }))
			}
		})
	}
	all.Wait()
}

func (b *batch) begin(ctx context.Context, whole bool) (i int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.next == b.end || b.failure != nil && !whole:
		return 0, false
	case ctx.Err() != nil:
		if b.failure == nil {
			b.failure = context.Cause(ctx)
		}
		return 0, false
	}
	b.next++
	return b.next - 1, true
}

func (b *batch) ended(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil:
		b.succeeded++
	case b.failure == nil:
		b.failure = err
	}
}
