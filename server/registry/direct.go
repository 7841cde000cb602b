package registry

import (
	"context"
	"errors"
	"iter"
	"sort"
	"strings"

	"github.com/millrace/millrace/server/store"
	"github.com/millrace/millrace/server/watchcache"
)

// storedView reads a prefix from the store: for kinds without a cache, and for states that have left its window.
func (s *Storage) storedView(ctx context.Context, f Freshness, prefix string) (view, error) {
	o := store.ListOptions{Stale: f.Any}
	if f.Exact {
		o.Revision = f.Revision
	}
	page, err := s.registry.Store.List(ctx, prefix, o)
	if errors.Is(err, store.ErrFuture) {
		now, _ := s.registry.Store.Revision(ctx) // for the message alone
		return nil, tooLarge(f.Revision, now)
	}
	if err != nil {
		return nil, statusOf(err, s.kind.GroupResource(), "")
	}
	if !f.Exact && page.Revision < f.Revision {
		return nil, tooLarge(f.Revision, page.Revision)
	}
	v := storedView{revision: page.Revision}
	if f.Exact {
		v.revision = f.Revision
	}
	options := s.cacheOptions()
	for _, e := range page.Entries {
		v.objects = append(v.objects, watchcache.NewObject(options, e))
	}
	return v, nil
}

// storedView is a part of the state in order of keys.
type storedView struct {
	revision store.Revision
	objects  []*watchcache.Object
}

func (v storedView) Revision() store.Revision { return v.revision }

func (v storedView) Get(key string) (*watchcache.Object, bool) {
	i := sort.Search(len(v.objects), func(i int) bool { return v.objects[i].Key >= key })
	if i < len(v.objects) && v.objects[i].Key == key {
		return v.objects[i], true
	}
	return nil, false
}

func (v storedView) rest(prefix, after string) []*watchcache.Object {
	from := sort.Search(len(v.objects), func(i int) bool {
		return v.objects[i].Key > after && v.objects[i].Key >= prefix
	})
	to := from
	for to < len(v.objects) && strings.HasPrefix(v.objects[to].Key, prefix) {
		to++
	}
	return v.objects[from:to]
}

func (v storedView) Range(prefix, after string) iter.Seq[*watchcache.Object] {
	return func(yield func(*watchcache.Object) bool) {
		for _, o := range v.rest(prefix, after) {
			if !yield(o) {
				return
			}
		}
	}
}

func (v storedView) CountRange(prefix, after string) int { return len(v.rest(prefix, after)) }
