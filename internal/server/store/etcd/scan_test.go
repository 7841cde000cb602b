package etcd

import (
	"fmt"
	"maps"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/millrace/millrace/internal/server/store"
)

func put(key, value string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(key), Value: []byte(value)}}}
}

// TestKeysOfOneTransactionAreScannedWithTheirOwnValues writes as other programs may have: a transaction gives all its
// keys one revision.
func TestKeysOfOneTransactionAreScannedWithTheirOwnValues(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustEmbed(t, dir)
	remove := func(key string) *pb.RequestOp {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(key)}}}
	}
	want := map[string]string{}
	for i := range 40 {
		var all []*pb.RequestOp
		for j := range 30 {
			key := fmt.Sprintf("/a/%02d/%02d", j, i) // neighbours have revisions that are far apart
			want[key] = "value of " + key
			all = append(all, put(key, want[key]))
		}
		if gone := fmt.Sprintf("/a/05/%02d", i-1); i > 0 {
			all = append(all, remove(gone))
			delete(want, gone)
		}
		if _, err := s.engine.txn(t.Context(), &pb.TxnRequest{Success: all}); err != nil {
			t.Fatal(err)
		}
	}
	shows := func(when string) {
		got := map[string]string{}
		done := make(chan struct{}, 1)
		done <- struct{}{}
		if _, err := s.Scan(t.Context(), "/a/", 0, func(entries []store.Entry) {
			<-done
			for _, e := range entries {
				got[e.Key] = string(e.Value)
			}
			done <- struct{}{}
		}); err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: %d entries, want %d", when, len(got), len(want))
		}
	}
	shows("before it is committed to the database")
	s.engine.(*embedded).commit()
	shows("after that")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustEmbed(t, dir) // more keys than a start reads in one step
	defer s.Close()
	shows("after a start")
}

func TestScanOfAMemberThatFailsEnds(t *testing.T) {
	t.Parallel()
	s := mustEmbed(t, t.TempDir())
	defer s.Close()
	for i := range 10 {
		var all []*pb.RequestOp
		for j := range 100 {
			all = append(all, put(fmt.Sprintf("/a/%d/%d", i, j), "x"))
		}
		if _, err := s.engine.txn(t.Context(), &pb.TxnRequest{Success: all}); err != nil {
			t.Fatal(err)
		}
	}
	m := s.engine.(*embedded).member()
	running := make(chan struct{}, 1)
	running <- struct{}{}
	over := false
	_, err := s.Scan(t.Context(), "/a/", 0, func([]store.Entry) {
		m.fail(errBroken)
		<-running
		if over {
			t.Error("a visit after the scan")
		}
		running <- struct{}{}
	})
	<-running
	over = true
	running <- struct{}{}
	if err == nil {
		t.Error("the scan of a failed member succeeded")
	}
}

// keysOfEtcd is the number before this package has changed it.
var keysOfEtcd = restoreChunkKeys

// TestStartsReadInSmallSteps: if etcd no longer has the variable, the name stands for one that nobody uses and that
// begins with zero.
func TestStartsReadInSmallSteps(t *testing.T) {
	setDatabaseOptions()
	if keysOfEtcd != 10_000 || restoreChunkKeys >= keysOfEtcd {
		t.Errorf("a start reads %d keys at a time, without this package %d", restoreChunkKeys, keysOfEtcd)
	}
}
