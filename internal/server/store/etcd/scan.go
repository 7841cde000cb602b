package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"

	"github.com/millrace/millrace/internal/protobuf"
	"github.com/millrace/millrace/internal/server/store"
)

// Scan implements store.Scanner for an embedded etcd. Etcd itself copies each value that it reads. A scan asks etcd
// only for the keys and their revisions, which are in memory, and lends the values out of the pages of the database, on
// all processors at the same time.
func (s *Store) Scan(ctx context.Context, prefix string, rev store.Revision, visit func([]store.Entry)) (store.Revision, error) {
	e, ok := s.engine.(*embedded)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	at, err := s.scan(ctx, e, prefix, int64(rev), visit)
	if err != nil {
		return 0, fmt.Errorf("scan %s at %d: %w", prefix, rev, err)
	}
	return store.Revision(at), nil
}

func (s *Store) scan(ctx context.Context, e *embedded, prefix string, rev int64, visit func([]store.Entry)) (int64, error) {
	if err := s.checkUsable(ctx); err != nil {
		return 0, err
	}
	if rev == 0 {
		var err error
		if rev, err = e.revision(ctx); err != nil {
			return 0, s.explain(ctx, err)
		}
	}
	sc := &scan{member: e.member(), root: len(s.root), from: []byte(s.root + prefix), end: rangeEnd(after(s.root + prefix)), rev: rev, visit: visit}
	if len(sc.from) == 0 {
		sc.from = []byte{0}
	}
	e.scans.Add(1)
	defer func() {
		e.scanned.Store(true)
		read := e.bytesRead.Add(sc.read.Load())
		if e.scans.Add(-1) == 0 && read >= maxResidentBytes {
			e.dropScannedPages()
		}
	}()
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for sc.visitPage(ctx) {
			}
		})
	}
	workers.Wait()
	sc.visits.Wait()
	if sc.err != nil {
		return 0, s.explain(ctx, sc.err)
	}
	s.progress.noteRevision(rev)
	return rev, nil
}

// scanPage is how many keys are read in one transaction of the database. While one is open, the space that is freed
// meanwhile cannot be used again.
const scanPage = 256

// scan is a scan in progress. Its workers take page after page.
type scan struct {
	member *member
	root   int // length of the prefix that callers do not see
	end    []byte
	rev    int64
	visit  func([]store.Entry)
	read   atomic.Int64 // bytes of values that were visited

	listing sync.Mutex // guards the two fields below; if the member fails, it may never be unlocked
	from    []byte     // where the next page begins
	done    bool       // there are no more pages

	mu     sync.Mutex // guards err, and orders visits.Add before visits.Wait
	err    error
	visits sync.WaitGroup
}

// visitPage reads and visits the next page. It returns false if there is none or the scan has failed. If the member
// fails, it returns at once.
func (sc *scan) visitPage(ctx context.Context) (more bool) {
	more, err := askMember(ctx, sc.member, func(m *member) (bool, error) {
		if m.kv.Rev() < sc.rev {
			return false, mvcc.ErrFutureRev
		}
		// The transaction begins before the keys are listed. If a compaction has removed something from the database by
		// then, etcd knows it when it lists the keys, and refuses revisions that lack something.
		tx := m.server.Backend().ConcurrentReadTx()
		tx.RLock()
		defer tx.RUnlock()
		keys, err := sc.nextKeys(m)
		if err != nil || len(keys) == 0 {
			return false, err
		}
		entries, err := readEntries(tx, keys, sc.root)
		if err != nil {
			return false, err
		}
		for _, e := range entries {
			sc.read.Add(int64(len(e.Value)))
		}
		return sc.pass(entries), nil
	})
	if err != nil {
		sc.mu.Lock()
		defer sc.mu.Unlock()
		sc.err = cmp.Or(sc.err, err)
	}
	return more && err == nil
}

// pass passes entries on unless the scan has failed.
func (sc *scan) pass(entries []store.Entry) bool {
	sc.mu.Lock()
	if sc.err != nil {
		sc.mu.Unlock()
		return false
	}
	sc.visits.Add(1)
	sc.mu.Unlock()
	defer sc.visits.Done()
	sc.visit(entries)
	return true
}

// nextKeys takes the next page of keys.
func (sc *scan) nextKeys(m *member) ([]*mvccpb.KeyValue, error) {
	sc.listing.Lock()
	defer sc.listing.Unlock()
	if sc.done {
		return nil, nil
	}
	r, err := m.kv.Range(context.Background(), sc.from, sc.end, mvcc.RangeOptions{Limit: scanPage, Rev: sc.rev, FastKeysOnly: true})
	if err != nil {
		return nil, err
	}
	if len(r.KVs) < scanPage {
		sc.done = true
	} else {
		sc.from = append(slices.Clone(r.KVs[scanPage-1].Key), 0)
	}
	return r.KVs, nil
}

// nearby is how far apart the revisions of two keys may be so that all revisions in between are read as well: that
// costs less than another search.
const nearby = 8

// readEntries reads the values of keys. They are parts of the database, and valid until the transaction ends. The
// database is ordered by revision. Keys that are neighbours were mostly written one after the other.
func readEntries(tx backend.ReadTx, keys []*mvccpb.KeyValue, root int) ([]store.Entry, error) {
	order, entries := make([]int, len(keys)), make([]store.Entry, len(keys))
	for i, kv := range keys {
		order[i] = i
		entries[i] = store.Entry{Key: string(kv.Key[root:]), Revision: store.Revision(kv.ModRevision)}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(keys[a].ModRevision, keys[b].ModRevision) })
	missing := len(keys)
	for begin := 0; begin < len(order); {
		end := begin + 1
		for end < len(order) && keys[order[end]].ModRevision-keys[order[end-1]].ModRevision <= nearby {
			end++
		}
		first, last := keys[order[begin]].ModRevision, keys[order[end-1]].ModRevision
		found, texts := tx.UnsafeRange(schema.Key, revisionKey(first), revisionKey(last+1), 0)
		wanted := order[begin:end]
		for i, f := range found {
			main := mvcc.BytesToRev(f).Main
			for len(wanted) > 0 && keys[wanted[0]].ModRevision < main {
				wanted = wanted[1:]
			}
			if mvcc.IsTombstone(f) || len(wanted) == 0 || keys[wanted[0]].ModRevision != main {
				continue
			}
			key, value, err := parseKeyValue(texts[i])
			if err != nil {
				return nil, fmt.Errorf("the database has a bad value at revision %d: %w", main, err)
			}
			for _, w := range wanted { // a transaction may write several keys with one revision
				if keys[w].ModRevision != main {
					break
				}
				if string(keys[w].Key) == string(key) {
					if entries[w].Value == nil {
						missing--
					}
					entries[w].Value = value
				}
			}
		}
		begin = end
	}
	if missing > 0 {
		return nil, fmt.Errorf("the database lacks %d values that its index has: %w", missing, store.ErrUnavailable)
	}
	return entries, nil
}

func revisionKey(main int64) []byte {
	return mvcc.RevToBytes(mvcc.Revision{Main: main}, mvcc.NewRevBytes())
}

// The numbers of two fields of mvccpb.KeyValue.
const (
	fieldKey   = 1
	fieldValue = 5
)

// parseKeyValue returns the key and the value of an encoded mvccpb.KeyValue, as parts of text. An empty value is not
// nil.
func parseKeyValue(text []byte) (key, value []byte, err error) {
	value = []byte{}
	s := protobuf.Scan(text)
	for s.Next() {
		switch s.Number {
		case fieldKey:
			key = s.Bytes
		case fieldValue:
			value = s.Bytes
		}
	}
	return key, value, s.Err()
}
