package watchcache

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/millrace/millrace/server/store"
)

// fill reads the state of all kinds at one revision. It runs while the log is not being read.
func (c *Cache) fill(ctx context.Context) error {
	rev, err := c.store.Revision(ctx)
	if err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	kinds := c.Kinds()
	states, bad := make([]tree, len(kinds)), make([]unreadable, len(kinds))
	for i, k := range kinds {
		if states[i], bad[i], _, err = k.list(ctx, rev); err != nil {
			return err
		}
	}
	if rev < c.Revision() { // what was there belongs to another store: no snapshot may claim its revision
		c.reached.set(rev)
	}
	for i, k := range kinds {
		k.install(states[i], bad[i], rev, false)
	}
	c.reached.set(rev)
	if c.Ready() {
		c.refills.Add(1)
	} else {
		close(c.ready)
	}
	c.log.Info("filled", slog.Int("kinds", len(kinds)), slog.Int64("rev", int64(rev)))
	return nil
}

// fillNew reads the state of the kinds that have none, while the log is being read. The list is newer than all that the
// reader of the log saw before it knew of the kind; what it sees from then on it keeps until the list is there.
func (c *Cache) fillNew(ctx context.Context) error {
	for _, k := range c.Kinds() {
		if k.Ready() {
			continue
		}
		state, bad, rev, err := k.list(ctx, 0)
		if err != nil {
			return err
		}
		k.install(state, bad, rev, true)
		c.log.Debug("filled a new kind", slog.String("kind", k.options.Name), slog.Int64("rev", int64(rev)))
	}
	return nil
}

// A page of a fill begins with so many entries and grows up to so many bytes or entries. Two pages are in memory at the same time, and twice as
// much may wait to be collected.
const (
	firstPage    = 500
	pageBytes    = 4 << 20
	largestPage  = 10_000
	smallestPage = 10
)

// nextPage tells how many entries to ask for after a page.
func (c *Cache) nextPage(p store.Page) int {
	bytes := 1
	for _, e := range p.Entries {
		bytes += len(e.Value) + len(e.Key)
	}
	return cmp.Or(c.options.PageSize, max(smallestPage, min(largestPage, len(p.Entries)*pageBytes/bytes)))
}

// list reads the kind's state at rev, or the newest if that is zero, in pages. A page is read while the one before it is taken. Objects that have
// not changed since the last fill stay the ones that they were.
func (k *Kind) list(ctx context.Context, rev store.Revision) (tree, unreadable, store.Revision, error) {
	f := filling{kind: k, old: k.Snapshot(), state: newTree()}
	var taking sync.WaitGroup
	defer taking.Wait()
	limit := cmp.Or(k.cache.options.PageSize, firstPage)
	for from := ""; ; {
		page, err := k.cache.store.List(ctx, k.options.Prefix, store.ListOptions{
			From: from, Limit: limit, Revision: rev, Uncounted: true,
		})
		if err != nil {
			return tree{}, nil, 0, fmt.Errorf("fill %s: %w", k.options.Name, err)
		}
		taking.Wait()
		taking.Go(func() { f.take(page.Entries) })
		rev = page.Revision
		if !page.More || len(page.Entries) == 0 {
			taking.Wait()
			return f.state, f.bad, rev, nil
		}
		from = page.Entries[len(page.Entries)-1].Key + "\x00"
		limit = k.cache.nextPage(page)
	}
}

// filling is the state of a kind while it is read. Values are put to rest at once: the whole state as it is may take several times the memory.
type filling struct {
	kind  *Kind
	old   Snapshot
	state tree
	bad   unreadable
	press presser
}

// take adds the entries of a page.
func (f *filling) take(entries []store.Entry) {
	for _, e := range entries {
		if e.Unreadable == nil {
			o := f.kind.unchanged(f.old, e)
			f.press.pressEarly(o)
			f.state.set(e.Key, o)
			continue
		}
		f.bad.note(e.Key, e.Unreadable)
		f.kind.complain("a value cannot be read: lists and watches leave it out", e, e.Unreadable)
	}
}

// unchanged returns the object that the entry is, if it is known. The revision alone does not tell: the store may have
// been replaced by another.
func (k *Kind) unchanged(old Snapshot, e store.Entry) *Object {
	if o, ok := old.Get(e.Key); ok && o.Revision == e.Revision && string(o.Value()) == string(e.Value) {
		return o
	}
	return k.readObject(e)
}
