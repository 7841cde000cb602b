package journal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/storetest"
)

func mustOpen(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(Options{Dir: dir, SegmentBytes: 1, Lost: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func shut(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestTheStoreKeepsItsGuarantees(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return mustOpen(t, t.TempDir()) })
	storetest.RunDurable(t, func(t *testing.T, dir string) store.Store { return mustOpen(t, dir) })
}

// fill creates keys until n exist, and returns their revisions.
func fill(t *testing.T, s *Store, n int) map[string]store.Revision {
	t.Helper()
	made := make(map[string]store.Revision)
	for i := range n {
		key := fmt.Sprintf("/k/%d", i)
		rev, err := s.Create(t.Context(), key, []byte(strings.Repeat(key, 20)), 0)
		if err != nil {
			t.Fatal(err)
		}
		made[key] = rev
	}
	return made
}

func revisions(t *testing.T, s *Store) map[string]store.Revision {
	t.Helper()
	page, err := s.List(t.Context(), "/", store.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]store.Revision)
	for _, e := range page.Entries {
		all[e.Key] = e.Revision
	}
	return all
}

// onlySegment returns the path of the segment of a directory, and where its records end.
func onlySegment(t *testing.T, dir string) (path string, records []int) {
	t.Helper()
	all, err := files(realDirectory(dir), segmentSuffix)
	if err != nil || len(all) != 1 {
		t.Fatalf("the segments are %v, %v", all, err)
	}
	path = filepath.Join(dir, fileName(all[0], segmentSuffix))
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c := newCodec()
	defer c.close()
	salt, err := readHead(b)
	at := headBytes
	for records = []int{at}; err == nil; records = append(records, at) {
		var n int
		_, n, err = c.read(b[at:], salt)
		if errors.Is(err, errEnd) {
			return path, records
		}
		at += n
	}
	t.Fatal(err)
	return "", nil
}

func TestATornTailIsCutAtTheLastWholeRecord(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir)
	made := fill(t, s, 5)
	shut(t, s)
	path, records := onlySegment(t, dir)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	start, end := records[4], records[5]
	delete(made, "/k/4")
	for cut := start; cut < end; cut++ {
		torn := append([]byte(nil), whole...)
		clear(torn[cut:end])
		if cut == end-1 && whole[cut] == 0 {
			continue // that byte is as it was
		}
		if err := os.WriteFile(path, torn, 0o600); err != nil {
			t.Fatal(err)
		}
		s := mustOpen(t, dir)
		if got := revisions(t, s); !maps.Equal(got, made) {
			t.Fatalf("cut at %d of %d to %d: there is %v, want %v", cut, start, end, got, made)
		}
		if rev, err := s.Create(t.Context(), "/next", []byte("x"), 0); err != nil || rev != 6 {
			t.Fatalf("the next write has revision %d, %v", rev, err)
		}
		shut(t, s)
		s = mustOpen(t, dir)
		if got := revisions(t, s); len(got) != 5 || got["/next"] != 6 {
			t.Fatalf("after another start there is %v", got)
		}
		shut(t, s)
	}
}

func TestABrokenRecordBeforeOthersIsToldByItsFileAndPlace(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir)
	fill(t, s, 5)
	shut(t, s)
	path, records := onlySegment(t, dir)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{records[2], records[2] + 5, records[2] + 12, records[3] - 1} {
		broken := append([]byte(nil), b...)
		broken[at] ^= 0x55
		if at == records[2] { // a lost sector looks like the end
			clear(broken[records[2]:records[3]])
		}
		if err := os.WriteFile(path, broken, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Open(Options{Dir: dir})
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%s, record at byte %d", filepath.Base(path), records[2])) {
			t.Errorf("with byte %d broken the error is %v", at, err)
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != string(broken) {
			t.Error("the file was changed")
		}
	}
}

func TestASnapshotMakesOlderFilesSuperfluous(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(Options{Dir: dir, SegmentBytes: 1, SnapshotBytes: 1 << 40})
	if err != nil {
		t.Fatal(err)
	}
	made := fill(t, s, 300)
	if err := s.snapshot(context.Background()); err != nil {
		t.Fatal(err)
	}
	rev, err := s.Delete(t.Context(), "/k/7", made["/k/7"])
	if err != nil {
		t.Fatal(err)
	}
	delete(made, "/k/7")
	shut(t, s)
	for range 2 {
		s = mustOpen(t, dir)
		if got := revisions(t, s); !maps.Equal(got, made) {
			t.Errorf("there are %d entries, want %d", len(got), len(made))
		}
		if now, _ := s.Revision(t.Context()); now != rev {
			t.Errorf("the revision is %d, want %d", now, rev)
		}
		if err := s.snapshot(context.Background()); err != nil {
			t.Fatal(err)
		}
		shut(t, s)
	}
	if all, err := files(realDirectory(dir), snapshotSuffix); err != nil || len(all) != 1 || all[0] != rev {
		t.Errorf("the snapshots are %v, %v", all, err)
	}
}

func TestADirectoryServesOneStore(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir)
	defer shut(t, s)
	if _, err := Open(Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("a second store has the error %v", err)
	}
}

func TestMissingChangesAreTold(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir)
	fill(t, s, 3)
	shut(t, s)
	path, _ := onlySegment(t, dir)
	if err := os.Rename(path, filepath.Join(dir, fileName(9, segmentSuffix))); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "the changes from 2 on are missing") {
		t.Errorf("the error is %v", err)
	}
}
