package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/millrace/millrace/internal/server/store"
)

// Found is what a directory has.
type Found struct {
	Snapshots, Archives, Segments int
	// Oldest and Newest are the first and the last change, or zero.
	Oldest, Newest store.Revision
	Changes        int64
	Bytes          int64
	// Broken says what cannot be read, a line for each file.
	Broken []error
}

// Verify reads everything that a directory has, also while a store works with it. It changes nothing. Told is told after
// each file how many are done, of how many.
func Verify(ctx context.Context, dir string, told func(done, of int)) (*Found, error) {
	return verify(ctx, realDirectory(dir), told)
}

func verify(ctx context.Context, dir directory, told func(done, of int)) (*Found, error) {
	v := &verifier{dir: dir, codec: newDecoder(), found: &Found{}}
	defer v.codec.decoder.Close()
	type one struct {
		rev  store.Revision
		read func(store.Revision) error
	}
	var all []one
	for suffix, read := range map[string]func(store.Revision) error{
		snapshotSuffix: v.snapshot, archiveSuffix: v.archive, segmentSuffix: v.segment,
	} {
		revs, err := files(dir, suffix)
		if err != nil {
			return nil, err
		}
		for _, rev := range revs {
			all = append(all, one{rev, read})
		}
	}
	for i, f := range all {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := f.read(f.rev); err != nil && !errors.Is(err, fs.ErrNotExist) { // what has just been removed is not needed
			v.found.Broken = append(v.found.Broken, err)
		}
		told(i+1, len(all))
	}
	return v.found, nil
}

type verifier struct {
	dir   directory
	codec *codec
	found *Found
}

// saw notes a change.
func (v *verifier) saw(rev store.Revision) {
	f := v.found
	if f.Changes++; f.Oldest == 0 || rev < f.Oldest {
		f.Oldest = rev
	}
	f.Newest = max(f.Newest, rev)
}

func (v *verifier) snapshot(rev store.Revision) error {
	f, err := openSnapshot(v.dir, v.codec, rev)
	if err != nil {
		return err
	}
	v.found.Snapshots, v.found.Bytes = v.found.Snapshots+1, v.found.Bytes+f.size
	v.found.Newest = max(v.found.Newest, rev)
	err = v.records(f.source, f.contents, func(change) error { return nil })
	return errors.Join(err, f.file.Close())
}

func (v *verifier) archive(rev store.Revision) error {
	a, err := openArchive(v.dir, v.codec, rev)
	if err != nil {
		return err
	}
	v.found.Archives, v.found.Bytes = v.found.Archives+1, v.found.Bytes+a.size
	next := rev
	err = v.records(a.source, a.contents, func(c change) error {
		if c.revision != next {
			return fmt.Errorf("%w: revision %d where %d belongs", errBroken, c.revision, next)
		}
		v.saw(c.revision)
		next++
		return nil
	})
	if err == nil && next != a.last+1 {
		err = fmt.Errorf("%s: %w: it ends with revision %d, and should with %d", a.name, errBroken, next-1, a.last)
	}
	return errors.Join(err, a.file.Close())
}

// records reads all records of changes of a file, and its index.
func (v *verifier) records(s *source, all contents, visit func(change) error) error {
	for _, e := range all.changes {
		changes, err := v.codec.readAt(e.place(s, 0))
		for i := 0; i < len(changes) && err == nil; i++ {
			err = visit(changes[i])
		}
		if err != nil {
			return err
		}
	}
	return all.findKeys(v.codec, s, "", func(int, string, []indexed) {})
}

// segment reads the groups of a segment. The last one may be written to meanwhile, and end in the middle of a group.
func (v *verifier) segment(first store.Revision) error {
	name := fileName(first, segmentSuffix)
	f, err := v.dir.open(name)
	if err != nil {
		return err
	}
	b, err := readAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	v.found.Segments, v.found.Bytes = v.found.Segments+1, v.found.Bytes+int64(len(b))
	last := first - 1
	end, err := v.codec.eachGroup(b, func(changes []change) error {
		for _, c := range changes {
			v.saw(c.revision)
			last = c.revision
		}
		return nil
	})
	if errors.Is(err, errEnd) || v.isLast(first) && !v.codec.wholeAfter(b, end, last) {
		return nil
	}
	return fmt.Errorf("%s, record at byte %d: %w", name, end, err)
}

// isLast reports whether a segment is the newest one.
func (v *verifier) isLast(first store.Revision) bool {
	all, err := files(v.dir, segmentSuffix)
	return err == nil && len(all) > 0 && all[len(all)-1] == first
}

// wholeAfter reports whether a whole group comes after a broken one.
func (c *codec) wholeAfter(b []byte, broken int, last store.Revision) bool {
	salt, err := readHead(b)
	return err == nil && c.anyGroupIn(b[broken:broken+written(b[broken:])], salt, last+1)
}

// eachGroup calls visit for the groups of a segment, and returns where they end, and why: errEnd if nothing follows.
func (c *codec) eachGroup(b []byte, visit func([]change) error) (at int, err error) {
	salt, err := readHead(b)
	if err != nil {
		return 0, err
	}
	for at = headBytes; ; {
		_, changes, spans, err := c.readGroup(b[at:], salt)
		if err == nil {
			err = visit(changes)
		}
		if err != nil {
			return at, err
		}
		end := spans[len(spans)-1]
		at += end.offset + end.length
	}
}
