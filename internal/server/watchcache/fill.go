package watchcache

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/millrace/millrace/internal/server/store"
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
	end := endRefilled
	if before := c.Revision(); rev < before { // the cached state belongs to another store: no snapshot may claim its revision
		end = endReplaced
		c.log.Warn("the store is at an older revision than before, as after a restore: everything is read again, and all watches end",
			slog.Int64("before", int64(before)), slog.Int64("rev", int64(rev)))
		c.forgetRevisions()
		c.reached.back(rev)
	}
	for i, k := range kinds {
		k.install(states[i], bad[i], rev, end, false)
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

// fillNew reads the state of new kinds while the log is being followed. The list is newer than every batch that was
// applied before the kind was added. Changes that arrive after that are kept until the list is there.
func (c *Cache) fillNew(ctx context.Context) error {
	for _, k := range c.Kinds() {
		if k.Ready() {
			continue
		}
		state, bad, rev, err := k.list(ctx, 0)
		if err != nil {
			return err
		}
		k.install(state, bad, rev, endRefilled, true)
		c.log.Debug("filled a new kind", slog.String("kind", k.options.Name), slog.Int64("rev", int64(rev)))
	}
	return nil
}

// The first page of a fill has this many entries; later pages grow up to this many bytes or entries. Two pages are in
// memory at the same time, and about twice as much may wait for the garbage collector.
const (
	firstPage    = 500
	pageBytes    = 4 << 20
	largestPage  = 10_000
	smallestPage = 10
)

// nextPage returns how many entries to ask for after a page.
func (c *Cache) nextPage(p store.Page) int {
	bytes := 1
	for _, e := range p.Entries {
		bytes += len(e.Value) + len(e.Key)
	}
	return cmp.Or(c.options.PageSize, max(smallestPage, min(largestPage, len(p.Entries)*pageBytes/bytes)))
}

// list reads the kind's state at rev, in pages; zero means the newest. Objects that have not changed since the last fill
// are kept as they are. It reads the next page while it takes the one before.
func (k *Kind) list(ctx context.Context, rev store.Revision) (tree, unreadable, store.Revision, error) {
	f := filling{kind: k, old: k.Snapshot(), state: newTree()}
	var p packer
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
		taking.Go(func() { f.take(page.Entries, &p) })
		rev = page.Revision
		if !page.More || len(page.Entries) == 0 {
			taking.Wait()
			return f.state, f.bad, rev, nil
		}
		from = page.Entries[len(page.Entries)-1].Key + "\x00"
		limit = k.cache.nextPage(page)
	}
}

// filling is the state of a kind while it is read.
type filling struct {
	kind  *Kind
	old   Snapshot
	state tree
	bad   unreadable
}

// take adds entries. Values are packed at once, because unpacked the whole state may take several times the memory.
func (f *filling) take(entries []store.Entry, p *packer) {
	for _, e := range entries {
		if e.Unreadable != nil {
			f.kind.logUnreadable("a value cannot be read: lists and watches omit the object", e, e.Unreadable)
			f.bad.note(e.Key, e.Unreadable)
			continue
		}
		o, known, err := f.kind.unchanged(f.old, e)
		if err != nil {
			f.bad.note(e.Key, err)
			continue
		}
		if !known { // otherwise the goroutine that packs the present state may be at it
			p.packEarly(o)
		}
		f.state.set(e.Key, o)
	}
}

// unchanged returns the known object that is identical to the entry, otherwise a new one. Comparing the revision is not
// enough: the store may have been replaced by another one.
func (k *Kind) unchanged(old Snapshot, e store.Entry) (o *Object, known bool, err *store.UnreadableError) {
	if o, known = old.Get(e.Key); known && o.Revision == e.Revision && string(o.Value()) == string(e.Value) {
		return o, true, nil
	}
	o, err = k.readObject(e)
	return o, false, err
}
