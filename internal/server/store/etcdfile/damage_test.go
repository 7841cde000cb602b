package etcdfile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/millrace/millrace/internal/protobuf"
	"github.com/millrace/millrace/internal/randomly"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/etcd/etcdtest"
)

// written returns the directory of an etcd that was stopped.
func written(t testing.TB, keys int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "etcd")
	s := etcdtest.Start(t, etcdtest.Options{Dir: dir})
	for n := range keys {
		value := strings.Repeat("x", n%7*1000)
		if _, err := s.Do(t.Context(), etcdtest.Put(fmt.Sprintf("/registry/%04d", n), value)); err != nil {
			t.Fatal(err)
		}
	}
	s.Etcd().Server.Backend().ForceCommit()
	s.Stop()
	return dir
}

func databaseOf(dir string) string { return filepath.Join(dir, "member", "snap", "db") }

func logOf(t testing.TB, dir string) string {
	t.Helper()
	files, err := segments(filepath.Join(dir, "member", "wal"))
	if err != nil || len(files) != 1 {
		t.Fatalf("its log has the files %v, %v", files, err)
	}
	return files[0].path
}

func mustRead(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustWrite(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// readBytes reads all of a database.
func readBytes(b []byte) error {
	s, err := readDatabase(bytes.NewReader(b), int64(len(b)), newMeter(context.Background(), int64(len(b)), nil))
	if err != nil {
		return err
	}
	for _, e := range s.entries {
		if _, err := s.load(e); err != nil {
			return err
		}
	}
	return nil
}

// TestADamagedDatabaseIsAnErrorWithItsPage changes bytes that are not in a value: all of them are noticed, or do not
// matter. None makes the reader panic or run for ever.
func TestADamagedDatabaseIsAnErrorWithItsPage(t *testing.T) {
	r := rand.New(rand.NewPCG(randomly.Seed(t), 0))
	whole := mustRead(t, databaseOf(written(t, 300)))
	if err := readBytes(whole); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for range 600 {
		b := bytes.Clone(whole)
		page := r.IntN(len(b) / 4096)
		for range 1 + r.IntN(4) {
			b[page*4096+r.IntN(128)] = byte(r.Uint32())
		}
		err := readBytes(b)
		if err != nil && !errors.Is(err, errDatabase) && !errors.Is(err, io.EOF) {
			t.Errorf("page %d: %v", page, err)
		}
		if err != nil {
			refused++
		}
	}
	if refused < 60 {
		t.Errorf("%d of 600 damages were noticed", refused)
	}
}

func TestADatabaseThatIsCutOffIsAnError(t *testing.T) {
	dir := written(t, 300)
	whole := mustRead(t, databaseOf(dir))
	p, err := openPages(bytes.NewReader(whole), int64(len(whole)), newMeter(t.Context(), 0, nil))
	if err != nil {
		t.Fatal(err)
	}
	used := int(p.count) * int(p.pageSize)
	for _, n := range []int{1, 79, 80, 4095, 4096, 8192, 8193, used / 2, used - 4096, used - 1} {
		mustWrite(t, databaseOf(dir), whole[:n])
		_, err := Open(t.Context(), dir, Options{})
		if err == nil || !strings.HasPrefix(err.Error(), databaseOf(dir)+": it is ") {
			t.Errorf("%d bytes of %d: %v", n, used, err)
		}
	}
	mustWrite(t, databaseOf(dir), whole[:used])
	if f, err := Open(t.Context(), dir, Options{}); err != nil {
		t.Errorf("all pages in use: %v", err)
	} else {
		f.Close()
	}
}

// A page that leads to itself, or has itself as its second child.
func TestATreeWithACircleEnds(t *testing.T) {
	whole := mustRead(t, databaseOf(written(t, 600)))
	p, err := openPages(bytes.NewReader(whole), int64(len(whole)), newMeter(t.Context(), 0, nil))
	if err != nil {
		t.Fatal(err)
	}
	all, err := p.buckets()
	if err != nil {
		t.Fatal(err)
	}
	root := all["key"].root
	g, err := p.read(root)
	if err != nil || g.flags() != flagBranch {
		t.Fatalf("the root has the flags %d, %v", g.flags(), err)
	}
	for i := range 2 {
		b := bytes.Clone(whole)
		copy(b[g.at+pageHead+int64(i)*elementHead+8:], []byte{byte(root), byte(root >> 8), 0, 0, 0, 0, 0, 0})
		if err := readBytes(b); !errors.Is(err, errDatabase) {
			t.Errorf("a circle by child %d: %v", i, err)
		}
	}
}

func FuzzDatabase(f *testing.F) {
	path := filepath.Join(f.TempDir(), "db")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true, PageSize: 1024})
	if err != nil {
		f.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		keys, err := tx.CreateBucket([]byte("key"))
		for rev := byte(1); rev < 40 && err == nil; rev++ {
			kv, _ := proto.Marshal(&mvccpb.KeyValue{Key: []byte{'k', rev % 30}, Value: bytes.Repeat([]byte("v"), 50), ModRevision: int64(rev)})
			err = keys.Put([]byte{0, 0, 0, 0, 0, 0, 0, rev, '_', 0, 0, 0, 0, 0, 0, 0, 0}, kv)
		}
		meta, more := tx.CreateBucket([]byte("meta"))
		return errors.Join(err, more, meta.Put([]byte("consistent_index"), make([]byte, 8)))
	})
	if err = errors.Join(err, db.Close()); err != nil {
		f.Fatal(err)
	}
	whole := mustRead(f, path)
	if err := readBytes(whole); err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) { _ = readBytes(b) })
}

func FuzzLog(f *testing.F) {
	put, err := proto.Marshal(&pb.InternalRaftRequest{ID: 1, Put: &pb.PutRequest{Key: []byte("k"), Value: []byte("v")}})
	if err != nil {
		f.Fatal(err)
	}
	var whole []byte
	var sum uint32
	for n := range uint64(4) {
		data := protobuf.AppendBytes(protobuf.AppendVarint(nil, fieldEntryIndex, n+1), fieldEntryData, put)
		sum = crc32.Update(sum, castagnoli, data)
		r := protobuf.AppendBytes(protobuf.AppendVarint(protobuf.AppendVarint(nil, fieldRecordKind, recordEntry), fieldRecordSum, uint64(sum)), fieldRecordData, data)
		whole = append(binary.LittleEndian.AppendUint64(whole, uint64(len(r))), r...)
	}
	read := func(b []byte) *state {
		l, s := log{}, newState(nil)
		if l.readFrom(bytes.NewReader(b), int64(len(b)), true) == nil {
			for _, c := range l.changes {
				if s.apply(c) != nil {
					break
				}
			}
		}
		return s
	}
	if s := read(whole); s.revision != firstRevision+4 {
		f.Fatalf("the revision is %d", s.revision)
	}
	f.Add(whole)
	f.Fuzz(func(t *testing.T, b []byte) { read(b) })
}

// FuzzChange reads the entries of a log, which have a checksum.
func FuzzChange(f *testing.F) {
	for _, r := range []*pb.InternalRaftRequest{
		{Txn: &pb.TxnRequest{Compare: []*pb.Compare{{Key: []byte("k"), RangeEnd: []byte{0}}}, Success: []*pb.RequestOp{etcdtest.Put("k", "v"), etcdtest.Delete("k")}}},
		{LeaseGrant: &pb.LeaseGrantRequest{ID: 1}, Alarm: &pb.AlarmRequest{Alarm: pb.AlarmType_NOSPACE}},
	} {
		b, err := proto.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint64(kindRequest), b)
		f.Add(uint64(kindMembers), b)
	}
	f.Fuzz(func(t *testing.T, kind uint64, b []byte) {
		s := newState(nil)
		if err := s.put(&pb.PutRequest{Key: []byte("k")}, 2); err != nil {
			t.Fatal(err)
		}
		_ = s.apply(change{kind: kind, index: 1, data: b})
	})
}

// withLog returns the directory of a killed etcd: its database has nothing, and its log everything.
func withLog(t *testing.T, keys int) string {
	t.Helper()
	dir := written(t, keys)
	if err := os.RemoveAll(filepath.Join(dir, "member", "snap")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestADamagedLogIsAnErrorWithItsByte(t *testing.T) {
	r := rand.New(rand.NewPCG(randomly.Seed(t), 0))
	dir := withLog(t, 50)
	f, err := Open(t.Context(), dir, Options{})
	if err != nil || len(f.keys) != 50 {
		t.Fatalf("all comes from the log: %v, %v", f, err)
	}
	path := logOf(t, dir)
	whole, end := mustReadLog(t, path)
	sizes := map[int]bool{} // the bytes of the sizes of records
	for at := 0; at < end; {
		for i := range recordHead {
			sizes[at+i] = true
		}
		word := binary.LittleEndian.Uint64(whole[at:])
		at += recordHead + int(word&(1<<56-1)+word>>56&7)
	}
	for range 300 {
		b := bytes.Clone(whole)
		at := r.IntN(end)
		b[at] ^= byte(1 + r.IntN(255))
		mustWrite(t, path, b)
		f, err := Open(t.Context(), dir, Options{})
		// A wrong size may lead behind the end, as that of a record does that was not written to its end. Bytes between
		// records say nothing.
		if err == nil && len(f.keys) != 50 && !sizes[at] || err != nil && !strings.HasPrefix(err.Error(), path+": record at byte ") {
			t.Errorf("byte %d: %v", at, err)
		}
	}
}

// mustReadLog returns a log with some of the zeros at its end, and where they begin.
func mustReadLog(t testing.TB, path string) (b []byte, end int) {
	t.Helper()
	b = mustRead(t, path)
	end = len(bytes.TrimRight(b, "\x00"))
	return b[:min(len(b), end+64<<10)], end
}

func TestTheUnwrittenEndOfALogIsNoError(t *testing.T) {
	dir := withLog(t, 50)
	path := logOf(t, dir)
	whole, end := mustReadLog(t, path)
	unwritten := bytes.Clone(whole)
	clear(unwritten[(end-2048)/sector*sector:][:sector])
	for _, c := range []struct {
		what string
		b    []byte
	}{
		{"it ends within a record", whole[:end-1000]},
		{"it ends within the size of a record", whole[:end-end%8-4]},
		{"a sector of the last record has zeros", unwritten},
	} {
		mustWrite(t, path, c.b)
		f, err := Open(t.Context(), dir, Options{})
		if err != nil || len(f.keys) > 50 || len(f.keys) < 45 {
			t.Errorf("%s: %v, %v", c.what, f, err)
		}
	}
}

func TestALogThatLacksSomethingIsAnError(t *testing.T) {
	other := logOf(t, written(t, 2))
	for want, damage := range map[string]func(t *testing.T, dir, log string){
		"has no log": func(t *testing.T, dir, log string) {
			if err := os.Remove(log); err != nil {
				t.Fatal(err)
			}
		},
		"it is not the log of this database, or it is damaged": func(t *testing.T, dir, log string) { mustWrite(t, log, mustRead(t, other)) },
		"entries between them are missing": func(t *testing.T, dir, log string) {
			if err := os.Rename(log, filepath.Join(filepath.Dir(log), "0000000000000003-0000000000001000.wal")); err != nil {
				t.Fatal(err)
			}
		},
		"a file of etcd's log is missing": func(t *testing.T, dir, log string) {
			mustWrite(t, filepath.Join(filepath.Dir(log), "0000000000000002-0000000000001000.wal"), nil)
		},
		"is not named as a file of etcd's log": func(t *testing.T, dir, log string) { mustWrite(t, filepath.Join(filepath.Dir(log), "x.wal"), nil) },
		"it is cut off": func(t *testing.T, dir, log string) {
			mustWrite(t, log, mustRead(t, log)[:3001])
			mustWrite(t, filepath.Join(filepath.Dir(log), "0000000000000001-0000000000001000.wal"), nil)
		},
		"is a directory": func(t *testing.T, dir, log string) {
			if err := os.Remove(log); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(log, 0o700); err != nil {
				t.Fatal(err)
			}
		},
	} {
		dir := written(t, 40)
		damage(t, dir, logOf(t, dir))
		if f, err := Open(t.Context(), dir, Options{}); err == nil || !strings.Contains(err.Error(), want) && want != "is a directory" {
			t.Errorf("%v, %v, want %s", f, err, want)
		}
	}
}

func TestWhatIsNotForOneReaderIsRefused(t *testing.T) {
	t.Run("a cluster", func(t *testing.T) {
		dir := t.TempDir()
		s := etcdtest.Start(t, etcdtest.Options{Dir: dir})
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.URL}, Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.MemberAddAsLearner(t.Context(), []string{"http://127.0.0.1:1"}); err != nil {
			t.Fatal(err)
		}
		s.Stop()
		if _, err := Open(t.Context(), dir, Options{}); err == nil || !strings.Contains(err.Error(), "belongs to an etcd cluster of 2 members") {
			t.Errorf("the error is %v", err)
		}
	})
	for want, s := range map[string]func(*state){
		"have to log in": func(s *state) { s.guarded = true },
		"different data": func(s *state) { s.alarms[alarm{1, pb.AlarmType_CORRUPT}] = true },
	} {
		st := newState(nil)
		s(st)
		if err := st.applyChange(&pb.InternalRaftRequest{Put: &pb.PutRequest{Key: []byte("k")}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestADirectoryToWhichNothingWasWrittenIsEmpty(t *testing.T) {
	empty, made := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Dir(databaseOf(made)), 0o700); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, databaseOf(made), nil)
	for _, dir := range []string{empty, made, written(t, 0)} {
		f, err := Open(t.Context(), dir, Options{})
		if err != nil {
			t.Error(err)
			continue
		}
		if page, err := f.List(t.Context(), "", store.ListOptions{}); err != nil || len(page.Entries) > 0 || page.Revision != firstRevision {
			t.Errorf("there is %v, %v", page, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// snapshot makes a snapshot as etcdctl does, and returns what the etcd has.
func snapshot(t *testing.T, path string) []string {
	t.Helper()
	s := etcdtest.Start(t, etcdtest.Options{})
	for n := range 100 {
		if _, err := s.Do(t.Context(), etcdtest.Put(fmt.Sprint("/registry/", n), strings.Repeat("y", n*100))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Do(t.Context(), etcdtest.Delete("/registry/7")); err != nil {
		t.Fatal(err)
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.URL}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	from, err := c.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(from)
	if err != nil {
		t.Fatal(err)
	}
	mustWrite(t, path, b)
	return answered(t, s)
}

func TestASnapshotIsReadIfItsSumIsRight(t *testing.T) {
	path := filepath.Join(t.TempDir(), "snapshot.db")
	want := snapshot(t, path)
	whole := mustRead(t, path)
	damaged := bytes.Clone(whole)
	damaged[len(damaged)/2]++
	for _, c := range []struct {
		what string
		b    []byte
		skip bool
		err  string
	}{
		{"whole", whole, false, ""},
		{"whole, unchecked", whole, true, ""},
		{"without its sum", whole[:len(whole)-sha256.Size], false, "it has no sum of its content"},
		{"without its sum, unchecked", whole[:len(whole)-sha256.Size], true, ""},
		{"damaged", damaged, false, "it is damaged"},
		{"cut off", whole[:len(whole)/2], false, "it has no sum of its content"},
		{"cut off, unchecked", whole[:len(whole)/2], true, "it is cut off"},
		{"empty", nil, false, "it has no sum of its content"},
		{"empty, unchecked", nil, true, "neither of its two heads is whole"},
		{"text", []byte("text"), true, "neither of its two heads is whole"},
	} {
		mustWrite(t, path, c.b)
		var told, size int64
		f, err := OpenSnapshot(t.Context(), path, Options{SkipHashCheck: c.skip, Told: func(r, s int64) { told, size = r, s }})
		if c.err != "" {
			if err == nil || !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v", c.what, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		if got := listed(t, f); !slices.Equal(got, want) || told > size {
			t.Errorf("%s: %d lines, want %d", c.what, len(got), len(want))
		}
		f.Close()
	}
}
