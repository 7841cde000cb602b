package loop

import (
	"context"
	"sync"

	"github.com/millrace/millrace/queue"
)

// maxBatch is how many writes of a SlowStart may run at the same time. More of them would not finish sooner, and each
// needs a stack and buffers.
const maxBatch = 64

// SlowStart calls write for 0 to count-1, in batches of 1, 2, 4, 8 and so on up to 32, each batch in parallel, and then
// the rest, 64 at a time. If a call fails, its batch is completed and no further call begins; in the last phase no
// further call begins at once. So when all would fail for the same reason, few are tried. It returns how many
// succeeded, and the first error.
func SlowStart(ctx context.Context, count int, write func(ctx context.Context, i int) error) (done int, err error) {
	for first, size := 0, 1; first < count; first, size = first+size, 2*size {
		if size >= maxBatch {
			size = count - first
		}
		b := batch{next: first, end: min(first+size, count), write: func(i int) error { return write(ctx, i) }}
		b.run(ctx, size < maxBatch)
		done += b.succeeded
		if b.failure != nil {
			return done, b.failure
		}
	}
	return done, nil
}

// batch is a number of parallel writes.
type batch struct {
	write func(i int) error

	mu        sync.Mutex
	next, end int   // guarded by mu: the calls that have not begun
	succeeded int   // guarded by mu
	failure   error // guarded by mu: the first error
}

// run runs the batch. With whole set, all of it is run even if a call fails.
func (b *batch) run(ctx context.Context, whole bool) {
	var all sync.WaitGroup
	for range min(maxBatch, b.end-b.next) {
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
