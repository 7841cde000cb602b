// Package memory is a store that lives as long as its process.
//
// It keeps every guarantee of package store except durability. It runs no goroutine: a store is a tree, a list of
// changes and, only while there are entries that expire, one timer.
//
// The state is a copy-on-write tree, so a List works on a snapshot and holds no lock while it reads. The past is the
// list of changes: an older state is the current one with the later changes undone. A watch is a cursor into that list.
// Compact and Options bound what is remembered; a cursor that falls behind the bound gets ErrCompacted and keeps
// nothing alive.
package memory

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/millrace/millrace/internal/server/store"
	btree "github.com/millrace/millrace/internal/tree"
)

// Options bounds a store. The zero value is good for tests and for small clusters.
type Options struct {
	// HistoryEvents is the maximum number of changes that are remembered; zero means 100,000.
	HistoryEvents int
	// HistoryBytes is the maximum number of bytes of keys and values in remembered changes. The newest few changes are
	// kept in any case. Zero means 64 MiB.
	HistoryBytes int64
	// MaxValueBytes is the largest value; zero means 1.5 MiB, which is etcd's limit for a request.
	MaxValueBytes int
	// Expired, if set, is called when an entry has expired at a revision, and now and then as long as it is there. It has
	// to delete it; it must not block or call the store. nil means that the store deletes it.
	Expired func(key string, rev store.Revision)
	// Load reads the values at some places, in any order, if changes have places. The values are the caller's.
	Load func(places []Place, visit func(n int, value []byte)) error
}

// tree is the state: it maps keys to items. A copy costs nothing until one of the two is written to.
type tree = btree.Tree[string, *item]

func newTree() tree {
	return btree.New(func(i **item, key string) int { return strings.Compare((*i).key, key) })
}

// Store is a store.Store in memory.
type Store struct {
	options Options
	closed  chan struct{}
	nudge   nudge

	// mu guards everything below.
	mu      sync.RWMutex
	ended   bool
	present tree
	bytes   int64
	// view is a copy of present that readers share; nil once present has been written to.
	view    *view
	past    pastViews
	history history
	expiry  expiry
}

var _ store.Store = (*Store)(nil)

// New makes an empty store. Its first revision is 1, as in etcd.
func New(o Options) *Store {
	o.HistoryEvents = cmp.Or(o.HistoryEvents, 100_000)
	o.HistoryBytes = cmp.Or(o.HistoryBytes, 64<<20)
	o.MaxValueBytes = cmp.Or(o.MaxValueBytes, 3<<19)
	return &Store{options: o, closed: make(chan struct{}), present: newTree(), history: newHistory(1)}
}

// Revision implements store.Store.
func (s *Store) Revision(ctx context.Context) (store.Revision, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.ended {
		return 0, store.ErrClosed
	}
	return s.history.newest(), nil
}

// Compact implements store.Store.
func (s *Store) Compact(ctx context.Context, rev store.Revision) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("compact at %d: %w", rev, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		return fmt.Errorf("compact at %d: %w", rev, store.ErrClosed)
	case rev > s.history.newest():
		return fmt.Errorf("compact at %d, newest is %d: %w", rev, s.history.newest(), store.ErrFuture)
	case rev <= s.history.compacted:
		return fmt.Errorf("compact at %d: %w", rev, store.ErrCompacted)
	}
	s.history.compact(rev)
	s.past.forget(rev)
	return nil
}

// Size implements store.Store: the bytes of all keys and values, present and remembered.
func (s *Store) Size(ctx context.Context) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.ended {
		return 0, store.ErrClosed
	}
	return s.bytes + s.history.bytes, nil
}

// Writable implements store.Store: a store in memory is writable until it is closed.
func (s *Store) Writable() error { return s.alive(context.Background()) }

// Close implements store.Store. It does not wait for watches, which run in their callers' goroutines and return soon.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil
	}
	s.ended = true
	s.expiry.stop()
	close(s.closed)
	return nil
}
