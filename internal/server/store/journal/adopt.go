package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/memory"
)

// Exists reports whether a directory has a log.
func Exists(dir string) (bool, error) {
	for _, suffix := range []string{snapshotSuffix, segmentSuffix} {
		found, err := files(realDirectory(dir), suffix)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err != nil || len(found) > 0 {
			return len(found) > 0, err
		}
	}
	return false, nil
}

// Lister is what Adopt needs of another store.
type Lister interface {
	List(ctx context.Context, prefix string, o store.ListOptions) (store.Page, error)
}

// Adoption says what Adopt takes over.
type Adoption struct {
	// From has the entries. They keep their revisions, so clients notice nothing, except that older changes are gone.
	From Lister
	// Prefix is that of the keys to take over.
	Prefix string
	// Life returns how long an entry lives, for ever if zero. How much of that has passed no store tells: it begins anew.
	Life func(key string) time.Duration
	// Told is told after each page how many entries were taken over, and how many follow.
	Told func(done, left int64)
}

// Adopt makes a new log from the present state of another store, which must not change meanwhile. A log that is there
// already is an error. What is not complete, after a crash as well, is no log.
func Adopt(ctx context.Context, dir string, a Adoption) error {
	lock, err := lockDirectory(dir)
	if err != nil {
		return err
	}
	if there, found := Exists(dir); found != nil || there {
		err = errors.Join(found, fmt.Errorf("there is a log in %s already", dir))
	} else {
		err = adopt(ctx, realDirectory(dir), a)
	}
	return errors.Join(err, lock.Close())
}

func adopt(ctx context.Context, dir directory, a Adoption) error {
	w, err := writeFile(dir, "adopted"+temporarySuffix, func(to *recordWriter) error { return newSnapshotWriter(to).adopt(ctx, a) })
	if err != nil {
		return err
	}
	return w.source.file.Close()
}

// adopt writes the entries of another store.
func (w *snapshotWriter) adopt(ctx context.Context, a Adoption) error {
	o := store.ListOptions{Limit: 1000}
	for done := int64(0); ; {
		page, err := a.From.List(ctx, a.Prefix, o)
		if err != nil {
			return err
		}
		if o.Revision == 0 {
			o.Revision = page.Revision
			w.begin(page.Revision)
		}
		for _, e := range page.Entries {
			if at := timeOf(a.Life(e.Key)); !at.IsZero() {
				w.expires[e.Key] = at
			}
			if err := w.add(e, memory.Ref{}); err != nil {
				return err
			}
		}
		done += int64(len(page.Entries))
		a.Told(done, page.Remaining)
		if !page.More {
			return w.end()
		}
		o.From = page.Entries[len(page.Entries)-1].Key + "\x00"
	}
}
