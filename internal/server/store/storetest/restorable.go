package storetest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/server/store"
)

// Restorable is a store that another can take the place of. Watches that run stay on the former.
type Restorable struct {
	now atomic.Pointer[store.Store]
}

// NewRestorable returns a Restorable that is s until Restore is called.
func NewRestorable(s store.Store) *Restorable {
	r := &Restorable{}
	r.Restore(s)
	return r
}

// Restore lets s take the place of the former store, which is not closed.
func (r *Restorable) Restore(s store.Store) { r.now.Store(&s) }

// Create implements store.Store.
func (r *Restorable) Create(ctx context.Context, key string, value []byte, ttl time.Duration, conditions ...store.Condition) (store.Revision, error) {
	return (*r.now.Load()).Create(ctx, key, value, ttl, conditions...)
}

// Get implements store.Store.
func (r *Restorable) Get(ctx context.Context, key string, o store.GetOptions) (store.Entry, error) {
	return (*r.now.Load()).Get(ctx, key, o)
}

// List implements store.Store.
func (r *Restorable) List(ctx context.Context, prefix string, o store.ListOptions) (store.Page, error) {
	return (*r.now.Load()).List(ctx, prefix, o)
}

// Update implements store.Store.
func (r *Restorable) Update(ctx context.Context, key string, value []byte, expect store.Revision, ttl time.Duration) (store.Revision, error) {
	return (*r.now.Load()).Update(ctx, key, value, expect, ttl)
}

// Delete implements store.Store.
func (r *Restorable) Delete(ctx context.Context, key string, expect store.Revision) (store.Revision, error) {
	return (*r.now.Load()).Delete(ctx, key, expect)
}

// Watch implements store.Store.
func (r *Restorable) Watch(ctx context.Context, prefix string, after store.Revision, sink func(store.Batch) error) error {
	return (*r.now.Load()).Watch(ctx, prefix, after, sink)
}

// Revision implements store.Store.
func (r *Restorable) Revision(ctx context.Context) (store.Revision, error) {
	return (*r.now.Load()).Revision(ctx)
}

// Compact implements store.Store.
func (r *Restorable) Compact(ctx context.Context, rev store.Revision) error {
	return (*r.now.Load()).Compact(ctx, rev)
}

// Size implements store.Store.
func (r *Restorable) Size(ctx context.Context) (int64, error) { return (*r.now.Load()).Size(ctx) }

// Writable implements store.Store.
func (r *Restorable) Writable() error { return (*r.now.Load()).Writable() }

// Close implements store.Store.
func (r *Restorable) Close() error { return (*r.now.Load()).Close() }

var _ store.Store = (*Restorable)(nil)
