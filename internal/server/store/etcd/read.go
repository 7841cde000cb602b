package etcd

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/internal/server/store"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key string, o store.GetOptions) (store.Entry, error) {
	if err := s.checkUsable(ctx); err != nil {
		return store.Entry{}, fmt.Errorf("get %s: %w", key, err)
	}
	kv, err := s.cluster.get(ctx, s.root+key, o.Stale)
	if err != nil {
		return store.Entry{}, fmt.Errorf("get %s: %w", key, s.explain(ctx, err))
	}
	if kv == nil {
		return store.Entry{}, fmt.Errorf("get %s: %w", key, store.ErrNotFound)
	}
	s.progress.noteRevision(kv.ModRevision)
	return s.entry(kv), nil
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, prefix string, o store.ListOptions) (store.Page, error) {
	page, err := s.list(ctx, prefix, o)
	if err != nil {
		return store.Page{}, fmt.Errorf("list %s at %d: %w", prefix, o.Revision, err)
	}
	return page, nil
}

func (s *Store) list(ctx context.Context, prefix string, o store.ListOptions) (store.Page, error) {
	if err := s.checkUsable(ctx); err != nil {
		return store.Page{}, err
	}
	q := query{
		start: []byte(s.root + max(prefix, o.From)),
		end:   after(s.root + prefix),
		limit: int64(o.Limit),
		rev:   int64(o.Revision),
		stale: o.Stale, uncounted: o.Uncounted && o.Limit > 0,
	}
	if len(q.start) == 0 {
		q.start = []byte{0}
	}
	beyond := len(q.end) > 1 && string(q.start) >= string(q.end)
	if beyond { // etcd refuses an empty range; the query still returns the revision and its errors
		q.start, q.end, q.limit = []byte{0}, []byte{1}, 1
	}
	a, err := s.cluster.list(ctx, q)
	if err != nil {
		return store.Page{}, s.explain(ctx, err)
	}
	s.progress.noteRevision(a.rev)
	page := store.Page{Revision: store.Revision(a.rev)}
	if o.Revision != 0 {
		page.Revision = o.Revision
	}
	if beyond {
		return page, nil
	}
	page.Remaining = a.count - int64(len(a.kvs))
	page.More = page.Remaining > 0
	page.Entries = make([]store.Entry, len(a.kvs))
	for i, kv := range a.kvs {
		page.Entries[i] = s.entry(kv)
	}
	return page, nil
}

func (s *Store) entry(kv *mvccpb.KeyValue) store.Entry {
	return store.Entry{Key: string(kv.Key[len(s.root):]), Value: kv.Value, Revision: store.Revision(kv.ModRevision)}
}

// after returns the first key behind all keys that begin with prefix. In etcd a zero byte means that there is no such
// key.
func after(prefix string) []byte {
	end := []byte(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return []byte{0}
}
