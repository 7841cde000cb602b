package etcdfile

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"

	"github.com/millrace/millrace/internal/randomly"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/etcd/etcdtest"
)

// servedDir is set in the process that runs an etcd until it is killed; servedSeed says what it writes.
const servedDir, servedSeed = "MILLRACE_TEST_ETCD_DIR", "MILLRACE_TEST_ETCD_SEED"

func TestMain(m *testing.M) {
	if dir := os.Getenv(servedDir); dir != "" {
		if err := writeUntilKilled(dir); err != nil {
			fmt.Println("failed", err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// rarely makes an etcd commit its database so rarely that much is in its log only.
func rarely(c *embed.Config) { c.BackendBatchInterval, c.BackendBatchLimit = 5*time.Second, 5000 }

// writeUntilKilled writes whatever the API has, at random, and prints a line after each write.
func writeUntilKilled(dir string) error {
	wal.SegmentSizeBytes = 256 << 10
	s, err := etcdtest.Run(etcdtest.Options{Dir: dir, Safe: true, Change: func(c *embed.Config) {
		rarely(c)
		c.SnapshotCount = 800
	}})
	if err != nil {
		return err
	}
	var seed uint64
	if _, err := fmt.Sscan(os.Getenv(servedSeed), &seed); err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(seed, 0))
	for n := 0; ; n++ {
		if err := writeSomething(context.Background(), s.Etcd(), r, n); err != nil {
			return err
		}
		fmt.Println("wrote", n)
	}
}

// writeSomething makes one random request. One that etcd refuses is as good as any.
func writeSomething(ctx context.Context, e *embed.Etcd, r *rand.Rand, n int) error {
	key := func() string { return fmt.Sprintf("/registry/%02d", r.IntN(60)) }
	lease := int64(1 + r.IntN(8))
	put := func() *pb.RequestOp {
		op := etcdtest.PutLeased(key(), strings.Repeat(fmt.Sprint("value ", n, " "), r.IntN(300)), lease*int64(r.IntN(2)))
		if p := op.GetRequestPut(); r.IntN(8) == 0 {
			p.Value, p.IgnoreValue = nil, true
		} else if r.IntN(8) == 0 {
			p.Lease, p.IgnoreLease = 0, true
		}
		return op
	}
	remove := func() *pb.RequestOp {
		op := etcdtest.Delete(key())
		if d := op.GetRequestDeleteRange(); r.IntN(4) == 0 {
			d.RangeEnd = []byte(string(d.Key) + "9")
		} else if r.IntN(100) == 0 {
			d.RangeEnd = []byte{0}
		}
		return op
	}
	compare := func() *pb.Compare {
		c := &pb.Compare{Key: []byte(key()), Result: pb.Compare_CompareResult(r.IntN(4))}
		switch r.IntN(5) {
		case 0:
			c.Target, c.TargetUnion = pb.Compare_VERSION, &pb.Compare_Version{Version: int64(r.IntN(5))}
		case 1:
			c.Target, c.TargetUnion = pb.Compare_CREATE, &pb.Compare_CreateRevision{CreateRevision: int64(r.IntN(n + 1))}
		case 2:
			c.Target, c.TargetUnion = pb.Compare_MOD, &pb.Compare_ModRevision{ModRevision: int64(r.IntN(n + 1))}
		case 3:
			c.Target, c.TargetUnion = pb.Compare_VALUE, &pb.Compare_Value{Value: []byte("value 5")}
		default:
			c.Target, c.TargetUnion = pb.Compare_LEASE, &pb.Compare_Lease{Lease: lease}
		}
		if r.IntN(4) == 0 {
			c.RangeEnd = []byte("/registry/4")
		}
		return c
	}
	txn := func(ops ...*pb.RequestOp) *pb.TxnRequest {
		return &pb.TxnRequest{Compare: []*pb.Compare{compare()}, Success: ops, Failure: []*pb.RequestOp{put()}}
	}
	var err error
	switch what := r.IntN(40); {
	case what < 2:
		_, err = e.Server.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: lease, TTL: 3600})
	case what < 3:
		_, err = e.Server.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: lease})
	case what < 4 && n > 20 && r.IntN(20) == 0: // it commits the database
		_, err = e.Server.Compact(ctx, &pb.CompactionRequest{Revision: int64(r.IntN(n))})
	case what < 5:
		a := &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, MemberID: 1, Alarm: pb.AlarmType_NOSPACE}
		if r.IntN(5) == 0 {
			a.Action = pb.AlarmRequest_ACTIVATE
		}
		_, err = e.Server.Alarm(ctx, a)
	case what < 7:
		_, err = e.Server.DeleteRange(ctx, remove().GetRequestDeleteRange())
	case what < 20:
		_, err = e.Server.Put(ctx, put().GetRequestPut())
	case what < 30:
		_, err = e.Server.Txn(ctx, txn(put()))
	case what < 35: // a key that is deleted and then written with its old value would end etcd
		inner := &pb.TxnRequest{Compare: []*pb.Compare{compare()}, Success: []*pb.RequestOp{etcdtest.PutLeased(key(), "inner", lease)}, Failure: []*pb.RequestOp{remove()}}
		_, err = e.Server.Txn(ctx, txn(remove(), &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: inner}}))
	default:
		_, err = e.Server.Txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{remove(), etcdtest.Put("/registry/again", fmt.Sprint(n)), etcdtest.Put(fmt.Sprint("/registry/new/", n), "")}})
	}
	if err != nil && (strings.Contains(err.Error(), "stopped") || strings.Contains(err.Error(), "timed out")) {
		return err
	}
	return nil
}

// killed returns the directory of an etcd that was killed in the middle of its work.
func killed(t *testing.T, seed uint64, writes int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "etcd")
	etcdtest.KillAfter(t, writes, func(n int) {
		if n != writes/2 {
			return
		}
		if _, err := Open(t.Context(), dir, Options{}); err == nil || !strings.Contains(err.Error(), "an etcd, or another process, uses it") {
			t.Errorf("opened while it runs: %v", err)
		}
	}, servedDir+"="+dir, servedSeed+"="+fmt.Sprint(seed))
	return dir
}

// copied copies a directory, and returns the sums of its files.
func copied(t *testing.T, from string) (to string, sums map[string]string) {
	t.Helper()
	to = filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to, sumsOf(t, from)
}

func sumsOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	sums := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		h := sha256.New()
		_, err = io.Copy(h, f)
		sums[path] = string(h.Sum(nil))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sums
}

// state of an etcd: its revision, and the revision and value of each key.
func listed(t *testing.T, f *Files) []string {
	t.Helper()
	all := []string{f.Revision().String()}
	for o := (store.ListOptions{Limit: 7}); ; {
		page, err := f.List(t.Context(), "", o)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Entries {
			all = append(all, fmt.Sprintf("%s at %d: %s", e.Key, e.Revision, e.Value))
		}
		if !page.More {
			return all
		}
		o.From, o.Revision = page.Entries[len(page.Entries)-1].Key+"\x00", page.Revision
	}
}

// served returns the same of an etcd that runs.
func served(t *testing.T, dir string) []string {
	t.Helper()
	s := etcdtest.Start(t, etcdtest.Options{Dir: dir})
	defer s.Stop()
	return answered(t, s)
}

func answered(t *testing.T, s *etcdtest.Server) []string {
	t.Helper()
	r, err := s.Etcd().Server.Range(t.Context(), &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}})
	if err != nil {
		t.Fatal(err)
	}
	all := []string{fmt.Sprint(r.Header.Revision)}
	for _, kv := range r.Kvs {
		all = append(all, fmt.Sprintf("%s at %d: %s", kv.Key, kv.ModRevision, kv.Value))
	}
	return all
}

// TestAKilledEtcdIsReadAsItWouldStart compares what is read with what etcd itself has after a start. Nothing in the
// directory changes.
func TestAKilledEtcdIsReadAsItWouldStart(t *testing.T) {
	r := rand.New(rand.NewPCG(randomly.Seed(t), 0))
	logged := 0
	for range 4 {
		dir := killed(t, r.Uint64(), 20+r.IntN(1500))
		twin, before := copied(t, dir)
		f, err := Open(t.Context(), dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := listed(t, f)
		for _, e := range f.state.entries {
			if e.kv != nil {
				logged++
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if after := sumsOf(t, dir); !maps.Equal(before, after) {
			t.Error("a file was changed")
		}
		if want := served(t, twin); !slices.Equal(got, want) {
			t.Errorf("%d lines were read, and etcd has %d:\n%.2000s\n%.2000s", len(got), len(want), strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if logged == 0 {
		t.Error("no key came from a log")
	}
	t.Log(logged, "keys came from the logs")
}
