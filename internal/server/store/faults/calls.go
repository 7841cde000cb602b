package faults

import (
	"context"
	"time"

	"github.com/millrace/millrace/internal/server/store"
)

// Create implements store.Store.
func (s *Store) Create(ctx context.Context, key string, value []byte, ttl time.Duration, conditions ...store.Condition) (store.Revision, error) {
	return do(ctx, s, Create, key, func() (store.Revision, error) { return s.inner.Create(ctx, key, value, ttl, conditions...) })
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key string, o store.GetOptions) (store.Entry, error) {
	return do(ctx, s, Get, key, func() (store.Entry, error) { return s.inner.Get(ctx, key, o) })
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, prefix string, o store.ListOptions) (store.Page, error) {
	return do(ctx, s, List, prefix, func() (store.Page, error) { return s.inner.List(ctx, prefix, o) })
}

// Update implements store.Store.
func (s *Store) Update(ctx context.Context, key string, value []byte, expect store.Revision, ttl time.Duration) (store.Revision, error) {
	return do(ctx, s, Update, key, func() (store.Revision, error) { return s.inner.Update(ctx, key, value, expect, ttl) })
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, key string, expect store.Revision) (store.Revision, error) {
	return do(ctx, s, Delete, key, func() (store.Revision, error) { return s.inner.Delete(ctx, key, expect) })
}

// Revision implements store.Store.
func (s *Store) Revision(ctx context.Context) (store.Revision, error) {
	return do(ctx, s, Revision, "", func() (store.Revision, error) { return s.inner.Revision(ctx) })
}

// Compact implements store.Store.
func (s *Store) Compact(ctx context.Context, rev store.Revision) error {
	_, err := do(ctx, s, Compact, "", func() (struct{}, error) { return struct{}{}, s.inner.Compact(ctx, rev) })
	return err
}

// Size implements store.Store.
func (s *Store) Size(ctx context.Context) (int64, error) {
	return do(ctx, s, Size, "", func() (int64, error) { return s.inner.Size(ctx) })
}

// Writable implements store.Store. No rule applies to it.
func (s *Store) Writable() error { return s.inner.Writable() }

// Close implements store.Store. No rule applies to it. It also ends watches that Hold has stopped.
func (s *Store) Close() error {
	err := s.inner.Close()
	s.Cut(store.ErrClosed)
	return err
}
