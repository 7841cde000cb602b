package loop

import (
	"context"
	"sync"

	"github.com/millrace/millrace/queue"
)

// SlowStart calls write for 0 to count-1, in batches of 1, 2, 4, 8 and so on,
// each batch in parallel, and stops after the first batch in which a call
// failed: when all would fail for the same reason, few are tried. It returns how many
// succeeded, and the first error.
func SlowStart(ctx context.Context, count int, write func(ctx context.Context, i int) error) (done int, err error) {
	for first, size := 0, 1; first < count; first, size = first+size, 2*size {
		if ctx.Err() != nil {
			return done, context.Cause(ctx)
		}
		succeeded, err := batch(first, min(size, count-first), func(i int) error { return write(ctx, i) })
		done += succeeded
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

func batch(first, size int, write func(i int) error) (succeeded int, failure error) {
	var all sync.WaitGroup
	var mu sync.Mutex // guards the results
	for i := first; i < first+size; i++ {
		all.Go(func() {
			err := queue.Contain(func() error { return write(i) })
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				succeeded++
			} else if failure == nil {
				failure = err
			}
		})
	}
	all.Wait()
	return succeeded, failure
}
