package past

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/server/store"
)

// frozen shows a store as it was right after a revision. A watch on it shows what came later, and so do lists at later
// revisions, with which a watch goes on; unless it is still.
type frozen struct {
	store.Store
	at    store.Revision
	still bool
}

var errReadOnly = fmt.Errorf("the past cannot be changed: %w", store.ErrUnavailable)

func (f *frozen) Create(context.Context, string, []byte, time.Duration, ...store.Condition) (store.Revision, error) {
	return 0, errReadOnly
}

func (f *frozen) Update(context.Context, string, []byte, store.Revision, time.Duration) (store.Revision, error) {
	return 0, errReadOnly
}

func (f *frozen) Delete(context.Context, string, store.Revision) (store.Revision, error) {
	return 0, errReadOnly
}

func (f *frozen) Compact(context.Context, store.Revision) error { return errReadOnly }

func (f *frozen) Writable() error { return errReadOnly }

// Close implements store.Store. The store that is shown stays open.
func (f *frozen) Close() error { return nil }

func (f *frozen) Revision(ctx context.Context) (store.Revision, error) { return f.at, ctx.Err() }

func (f *frozen) Get(ctx context.Context, key string, _ store.GetOptions) (store.Entry, error) {
	page, err := f.Store.List(ctx, key, store.ListOptions{Limit: 1, Revision: f.at, Uncounted: true})
	if err != nil {
		return store.Entry{}, err
	}
	if len(page.Entries) == 0 || page.Entries[0].Key != key {
		return store.Entry{}, fmt.Errorf("get %s at %d: %w", key, f.at, store.ErrNotFound)
	}
	if e := page.Entries[0]; e.Unreadable != nil {
		return store.Entry{}, fmt.Errorf("get %s at %d: %w", key, f.at, e.Unreadable)
	}
	return page.Entries[0], nil
}

func (f *frozen) List(ctx context.Context, prefix string, o store.ListOptions) (store.Page, error) {
	if f.still && o.Revision > f.at {
		return store.Page{}, fmt.Errorf("list %s at %d, newest is %d: %w", prefix, o.Revision, f.at, store.ErrFuture)
	}
	if o.Revision == 0 {
		o.Revision = f.at
	}
	return f.Store.List(ctx, prefix, o)
}

func (f *frozen) Watch(ctx context.Context, prefix string, after store.Revision, sink func(store.Batch) error) error {
	if !f.still {
		return f.Store.Watch(ctx, prefix, after, sink)
	}
	if err := sink(store.Batch{Revision: f.at}); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}
