package journal

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace/millrace/internal/server/store"
)

// Forget removes what the past changes of a key were from a directory that no store uses: values and notes, not that
// there were changes. What the key has now stays. It returns how many changes were forgotten.
func Forget(ctx context.Context, dir, key string) (int, error) {
	lock, err := lockDirectory(dir)
	if err != nil {
		return 0, err
	}
	s, err := open(Options{Dir: dir, History: Everything}, realDirectory(dir), lock)
	if err != nil {
		return 0, errors.Join(err, lock.Close())
	}
	n, err := s.forget(ctx, key)
	return n, errors.Join(err, s.Close())
}

// forget puts all changes into archives first: they alone, and snapshots, are written anew. It is for a store that does
// not run.
func (s *Store) forget(ctx context.Context, key string) (n int, err error) {
	rev, err := s.state.Revision(ctx)
	if err == nil && s.segment.at > int64(headBytes) {
		if s.segment, err = newSegment(s.dir, rev+1, s.options.SegmentBytes); err == nil {
			s.sources.add(s.segment.source)
		}
	}
	if err == nil {
		err = s.snapshot(ctx)
	}
	if err != nil {
		return 0, err
	}
	present := store.Revision(0)
	if e, err := s.Get(ctx, key, store.GetOptions{}); err == nil {
		present = e.Revision
	} else if !errors.Is(err, store.ErrNotFound) {
		return 0, err
	}
	snapshots := s.past.snapshots
	for _, f := range snapshots[:len(snapshots)-1] {
		if _, err := s.rewrite(f.source, f.contents, f.revision, key, present); err != nil {
			return n, err
		}
	}
	for _, a := range s.past.archives {
		changed, err := s.rewrite(a.source, a.contents, 0, key, present)
		if n += changed; err != nil {
			return n, err
		}
	}
	return n, nil
}

// rewrite writes a file anew without what the changes of a key were, but for the present one. The group is that of a
// snapshot's records; zero says that it is an archive.
func (s *Store) rewrite(f *source, all contents, group store.Revision, key string, present store.Revision) (n int, err error) {
	found := false
	if err := all.findKeys(s.codec, f, key, func(_ int, k string, _ []indexed) { found = found || k == key }); err != nil || !found {
		return 0, err
	}
	w, err := writeFile(s.dir, "forgotten"+temporarySuffix, func(to *recordWriter) error {
		to.source.name = f.name
		for i, e := range all.changes {
			changes, err := s.codec.readAt(e.place(f, 0))
			if err != nil {
				return err
			}
			for i := range changes {
				if c := &changes[i]; c.key == key && c.revision != present && !c.deleted && !c.forgotten {
					c.value, c.note, c.forgotten = nil, nil, true
					n++
				}
			}
			r := record{group: group, changes: changes, last: i == len(all.changes)-1}
			if group == 0 {
				r.group, r.last = e.revision, true
			}
			if _, err := to.record(r); err != nil {
				return err
			}
		}
		if err := copyIndex(to, s.codec, f, all); err != nil {
			return err
		}
		return to.end(all.last)
	})
	if err != nil {
		return 0, fmt.Errorf("%s: %w", f.name, err)
	}
	return n, w.source.file.Close()
}

func copyIndex(to *recordWriter, c *codec, f *source, all contents) error {
	index := indexWriter{to: to}
	var failed error
	err := all.findKeys(c, f, "", func(_ int, key string, changes []indexed) {
		if failed == nil {
			failed = index.add(key, changes)
		}
	})
	return errors.Join(err, failed, index.flush())
}
