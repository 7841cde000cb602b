package memory

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/server/store"
)

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key string, _ store.GetOptions) (store.Entry, error) {
	if err := ctx.Err(); err != nil {
		return store.Entry{}, fmt.Errorf("get %s: %w", key, err)
	}
	s.mu.RLock()
	ended := s.ended
	i, found := s.present.Get(key)
	s.mu.RUnlock()
	switch {
	case ended:
		return store.Entry{}, fmt.Errorf("get %s: %w", key, store.ErrClosed)
	case !found:
		return store.Entry{}, fmt.Errorf("get %s: %w", key, store.ErrNotFound)
	}
	e, err := s.entry(i)
	if err != nil {
		return store.Entry{}, fmt.Errorf("get %s: %w", key, err)
	}
	return e, nil
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, prefix string, o store.ListOptions) (store.Page, error) {
	v, err := s.viewAt(ctx, o.Revision)
	if err != nil {
		return store.Page{}, fmt.Errorf("list %s at %d: %w", prefix, o.Revision, err)
	}
	page, found := v.page(prefix, o)
	if page.Entries, err = s.complete(found); err != nil {
		return store.Page{}, fmt.Errorf("list %s at %d: %w", prefix, o.Revision, err)
	}
	if page.More {
		s.keep(v)
	}
	return page, nil
}

// view is the state right after one revision. It is not modified once it is shared.
type view struct {
	tree tree
	rev  store.Revision
}

// page reads one page of the keys below a prefix, and the entries that are to be completed.
func (v *view) page(prefix string, o store.ListOptions) (page store.Page, found entries) {
	from := max(prefix, o.From)
	count := v.rank(func(key string) bool { return key > prefix && !strings.HasPrefix(key, prefix) }) -
		v.rank(func(key string) bool { return key >= from })
	size := max(count, 0)
	if o.Limit > 0 {
		size = min(size, o.Limit)
	}
	page = store.Page{Revision: v.rev, More: count > size}
	if page.More {
		page.Remaining = int64(count - size)
	}
	if size == 0 {
		return page, found
	}
	found.all = make([]store.Entry, 0, size)
	v.tree.Ascend(from, func(i *item) bool {
		found.add(i)
		return len(found.all) < size
	})
	return page, found
}

// rank counts the keys for which beyond is false; they come first.
func (v *view) rank(beyond func(string) bool) int {
	return v.tree.Before(func(i **item) bool { return beyond((*i).key) })
}

// viewAt returns the state right after rev; zero means the newest state.
func (s *Store) viewAt(ctx context.Context, rev store.Revision) (*view, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.RLock()
	v, ok, err := s.knownViewLocked(rev)
	s.mu.RUnlock()
	if ok || err != nil {
		return v, err
	}
	s.mu.Lock()
	v, ok, err = s.knownViewLocked(rev)
	if ok || err != nil {
		s.mu.Unlock()
		return v, err
	}
	newest := s.history.newest()
	v = &view{tree: s.present.Freeze(), rev: newest}
	if rev == 0 || rev == newest {
		s.view = v
		s.mu.Unlock()
		return v, nil
	}
	from, to := s.history.at(rev), s.history.last()
	s.mu.Unlock()
	// This goroutine owns the copy, and the list is only ever cut off: the long part needs no lock.
	if err := v.undo(from, to); err != nil {
		return nil, err
	}
	s.keep(v)
	return v, nil
}

// knownViewLocked returns a view that exists already, or an error if the revision is not available.
func (s *Store) knownViewLocked(rev store.Revision) (*view, bool, error) {
	newest := s.history.newest()
	switch {
	case s.ended:
		return nil, false, store.ErrClosed
	case rev > newest:
		return nil, false, fmt.Errorf("newest is %d: %w", newest, store.ErrFuture)
	case rev == 0 || rev == newest:
		return s.view, s.view != nil, nil
	case rev < s.history.compacted:
		return nil, false, fmt.Errorf("oldest is %d: %w", s.history.compacted, store.ErrCompacted)
	}
	v := s.past.find(rev)
	return v, v != nil, nil
}

// undo takes the view back from one change to an earlier one.
func (v *view) undo(from, to *change) error {
	var changes []*change
	for c := from; c != to; {
		next := c.next.Load()
		if next == c {
			return store.ErrCompacted
		}
		changes = append(changes, next)
		c = next
	}
	for _, c := range slices.Backward(changes) {
		if c.before == nil {
			v.tree.Delete(c.now.key)
		} else {
			v.tree.Set(c.before.key, c.before)
		}
	}
	v.rev = from.now.rev
	return nil
}

// keep remembers a view, because a client that reads in pages will soon ask for it again.
func (s *Store) keep(v *view) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.rev >= s.history.compacted {
		s.past.add(v)
	}
}

// pastViews holds the last few views that clients read in pages; the most recently used is last.
type pastViews struct{ views []*view }

const maxPastViews = 4

func (p *pastViews) find(rev store.Revision) *view {
	for _, v := range p.views {
		if v.rev == rev {
			return v
		}
	}
	return nil
}

func (p *pastViews) add(v *view) {
	p.views = slices.DeleteFunc(p.views, func(other *view) bool { return other.rev == v.rev })
	if len(p.views) == maxPastViews {
		p.views = slices.Delete(p.views, 0, 1)
	}
	p.views = append(p.views, v)
}

// forget drops the views before rev.
func (p *pastViews) forget(rev store.Revision) {
	p.views = slices.DeleteFunc(p.views, func(v *view) bool { return v.rev < rev })
}
