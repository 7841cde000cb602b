package certificates

import (
	"context"

	"github.com/millrace/millrace/loop"
)

// syncing handles one request, which it must not change.
type syncing func(ctx context.Context, key loop.Key, r *request) (loop.Result, error)

// each calls sync for requests that exist, once the cache shows the loop's own writes.
func (r *requests) each(sync syncing) func(context.Context, loop.Key) (loop.Result, error) {
	return func(ctx context.Context, key loop.Key) (loop.Result, error) {
		found, ok := r.cache.Lookup(key)
		if !ok || found.DeletionTimestamp != nil {
			return loop.Result{}, nil
		}
		return sync(ctx, key, found)
	}
}
