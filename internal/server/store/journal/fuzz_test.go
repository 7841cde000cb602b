package journal

import (
	"context"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/millrace/millrace/internal/server/store"
)

func FuzzReadingRecords(f *testing.F) {
	c, other := newCodec(), newCodec()
	for _, r := range []record{
		{group: 2, last: true, changes: []change{{key: "/a", value: []byte("x"), revision: 2}}},
		{group: 3, changes: []change{{key: "/a", value: make([]byte, 5000), revision: 3}, {key: "/b", deleted: true, revision: 4}}},
	} {
		b := c.append(nil, 0, r)
		_, sum, _ := bodyLength(b, 0)
		f.Add(b[headerBytes:], sum)
	}
	f.Fuzz(func(t *testing.T, b []byte, sum uint32) {
		if len(b) == 0 {
			return
		}
		_, _ = c.body(b, 0, sum)
		r, err := c.body(b, 0, salt(0).sum(b)) // so that a wrong sum does not hide the rest
		if err != nil {
			return
		}
		again, _, err := other.read(other.append(nil, 7, r), 7)
		if err != nil || len(again.changes) != len(r.changes) || again.group != r.group || again.last != r.last {
			t.Errorf("%d changes of %d bytes, written again %d, %v", len(r.changes), len(b), len(again.changes), err)
		}
	})
}

// writtenFiles makes the files of a store.
func writtenFiles(f *testing.F) (segment, snapshot []byte) {
	d := newSimDisk(rand.New(rand.NewPCG(1, 1)))
	s, err := open(Options{}, d, io.NopCloser(nil))
	if err != nil {
		f.Fatal(err)
	}
	for i := range 20 {
		w := newWrite(string(rune('a' + i)))
		w.Value, w.check = make([]byte, i*i), func() error { return nil }
		if err := s.enqueue(w); err != nil {
			f.Fatal(err)
		}
		if s.commitWaiting(); i == 10 {
			if err := s.snapshot(context.Background()); err != nil {
				f.Fatal(err)
			}
		}
	}
	for name, file := range d.present {
		if name == fileName(2, segmentSuffix) {
			segment = file.present[:s.segment.at]
		} else {
			snapshot = file.present
		}
	}
	if err := s.Close(); err != nil {
		f.Fatal(err)
	}
	return segment, snapshot
}

// startWith starts a store with a file that holds anything. If it starts, it works and starts again.
func startWith(t *testing.T, name string, content []byte) {
	d := newSimDisk(rand.New(rand.NewPCG(1, 1)))
	made, _ := d.create(name)
	made.(*simFile).present = content
	s, err := open(Options{SegmentBytes: 1, SnapshotBytes: 1}, d, io.NopCloser(nil))
	if err != nil {
		return
	}
	w := newWrite("/new")
	w.Value, w.check = []byte("x"), func() error { return s.state.CheckCreate(w.Key, nil) }
	if err := s.enqueue(w); err != nil {
		t.Fatal(err)
	}
	s.commitWaiting()
	before, err := s.List(t.Context(), "", store.ListOptions{})
	if err != nil || s.snapshot(t.Context()) != nil {
		t.Fatal("it does not work", err)
	}
	_ = s.Close()
	if s, err = open(Options{}, d, io.NopCloser(nil)); err != nil {
		t.Fatal(err)
	}
	after, err := s.List(t.Context(), "", store.ListOptions{})
	if err != nil || before.Revision != after.Revision || len(before.Entries) != len(after.Entries) {
		t.Errorf("%d at %d became %d at %d, %v", len(before.Entries), before.Revision, len(after.Entries), after.Revision, err)
	}
	_ = s.Close()
}

func FuzzReadingSegments(f *testing.F) {
	segment, _ := writtenFiles(f)
	f.Add(segment)
	f.Add(append(segment, make([]byte, 9000)...))
	f.Fuzz(func(t *testing.T, b []byte) { startWith(t, fileName(2, segmentSuffix), resum(b)) })
}

func FuzzReadingSnapshots(f *testing.F) {
	_, snapshot := writtenFiles(f)
	f.Add(snapshot)
	f.Fuzz(func(t *testing.T, b []byte) { startWith(t, fileName(12, snapshotSuffix), resum(b)) })
}

// writtenArchive makes an archive.
func writtenArchive(f *testing.F) []byte {
	d := newSimDisk(rand.New(rand.NewPCG(1, 1)))
	s, err := open(Options{SegmentBytes: 1, History: Everything}, d, io.NopCloser(nil))
	if err != nil {
		f.Fatal(err)
	}
	for i := range 200 {
		w := newWrite(string(rune('a' + i%20)))
		w.Value, w.note, w.check = make([]byte, i), []byte("note"), func() error { return nil }
		if err := s.enqueue(w); err != nil {
			f.Fatal(err)
		}
		s.commitWaiting()
	}
	if err := s.snapshot(context.Background()); err != nil {
		f.Fatal(err)
	}
	content := d.present[fileName(2, archiveSuffix)].present
	if err := s.Close(); err != nil {
		f.Fatal(err)
	}
	return content
}

// Whatever an archive holds, reading the past fails or does not, and the store works.
func FuzzReadingArchives(f *testing.F) {
	f.Add(writtenArchive(f), int64(7))
	f.Fuzz(func(t *testing.T, b []byte, rev int64) {
		d := newSimDisk(rand.New(rand.NewPCG(1, 1)))
		made, _ := d.create(fileName(2, archiveSuffix))
		made.(*simFile).present = resum(b)
		s, err := open(Options{History: Everything}, d, io.NopCloser(nil))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = s.viewPast(t.Context(), "", store.Revision(rev))
		_, _ = s.findChanges(store.ChangeQuery{Below: true})
		_, _ = s.Changes(t.Context(), store.ChangeQuery{Key: "a"})
		_, _ = s.revisionAt(rev)
		_, _ = s.batchAfter(t.Context(), "", store.Revision(rev), 1000)
		_ = s.Close()
	})
}

// resum makes the sums of the first records right, so that wrong ones do not hide the rest.
func resum(b []byte) []byte {
	b = append([]byte(nil), b...)
	s, err := readHead(b)
	for at := headBytes; err == nil && at+headerBytes < len(b); {
		n := int(b[at]) | int(b[at+1])<<8 | int(b[at+2])<<16
		if n == 0 || n > len(b)-at-headerBytes {
			break
		}
		putHeader(b[at:at+headerBytes], b[at+headerBytes:at+headerBytes+n], s)
		at += headerBytes + n
	}
	return b
}
