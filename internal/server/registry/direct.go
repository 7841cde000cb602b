package registry

import (
	"context"
	"errors"
	"iter"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// storedView shows the keys of a prefix after a given one, read from the store. It is used for kinds without a cache,
// for revisions that have left the window, and while the watch cache does not follow the store's log. It reads the next
// page when needed, and keeps only one.
type storedView struct {
	storage  *Storage
	read     func(from string, limit int) (store.Page, error) // reads a later page of the same revision
	revision store.Revision
	limit    int
	page     store.Page // the last page that was read
	err      error      // why a later page could not be read
}

// These bound the entries of a page, in number and in bytes. Etcd counts the rest of the range for each page, so large
// pages cost less.
const (
	firstEntries = 500
	maxEntries   = 10_000
	pageBytes    = 8 << 20
)

// storedView reads the first page. With a limit it reads one entry more, which shows whether any are left.
func (s *Storage) storedView(ctx context.Context, f Freshness, prefix, after string, limit int) (*storedView, error) {
	first := store.ListOptions{Stale: f.Any}
	if f.Exact {
		first.Revision = f.Revision
	}
	v := &storedView{storage: s, limit: firstEntries}
	if limit > 0 {
		v.limit = min(limit+1, maxEntries)
	}
	first.Limit = v.limit
	if after != "" {
		first.From = after + "\x00"
	}
	var err error
	v.page, err = s.registry.Store.List(ctx, prefix, first)
	if errors.Is(err, store.ErrFuture) {
		now, _ := s.registry.Store.Revision(ctx) // only for the message
		return nil, tooLarge(f.Revision, now)
	}
	if err != nil {
		return nil, statusOf(err, s.kind.GroupResource(), "")
	}
	if !f.Exact && v.page.Revision < f.Revision {
		return nil, tooLarge(f.Revision, v.page.Revision)
	}
	v.revision = v.page.Revision
	if f.Exact {
		v.revision = f.Revision
	}
	v.read = func(from string, limit int) (store.Page, error) {
		return s.registry.Store.List(ctx, prefix, store.ListOptions{From: from, Limit: limit, Revision: v.revision})
	}
	return v, nil
}

// Revision implements view.
func (v *storedView) Revision() store.Revision { return v.revision }

// Get implements view.
func (v *storedView) Get(key string) (*watchcache.Object, bool) {
	for o := range v.Range("", "") {
		if o.Key == key {
			return o, true
		}
	}
	return nil, false
}

// Range implements view. It ignores its arguments: the range was given when the view was made. It can be called once;
// err then says whether it came to the end.
func (v *storedView) Range(string, string) iter.Seq[*watchcache.Object] {
	options := v.storage.cacheOptions()
	return func(yield func(*watchcache.Object) bool) {
		for {
			for _, e := range v.page.Entries {
				if e.Unreadable != nil {
					continue
				}
				if o, err := watchcache.NewObject(options, e); err == nil && !yield(o) {
					return
				}
			}
			if !v.page.More || len(v.page.Entries) == 0 || !v.next() {
				return
			}
		}
	}
}

// next reads the next page.
func (v *storedView) next() bool {
	bytes := 1
	for _, e := range v.page.Entries {
		bytes += len(e.Key) + len(e.Value)
	}
	v.limit = max(1, min(2*v.limit, maxEntries, len(v.page.Entries)*pageBytes/bytes))
	page, err := v.read(v.page.Entries[len(v.page.Entries)-1].Key+"\x00", v.limit)
	if err != nil {
		v.err = statusOf(err, v.storage.kind.GroupResource(), "")
		return false
	}
	v.page = page
	return true
}

// CountRange implements view: it counts the keys after a key of the current page.
func (v *storedView) CountRange(_, after string) int {
	n := int(v.page.Remaining)
	for _, e := range v.page.Entries {
		if e.Key > after {
			n++
		}
	}
	return n
}
