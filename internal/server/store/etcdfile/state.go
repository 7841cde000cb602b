package etcdfile

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sort"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/millrace/millrace/internal/server/store"
)

// state is the state of an etcd after some entry of its log.
type state struct {
	file     io.ReaderAt // has the values
	entries  map[string]entry
	revision int64
	// compacted is the oldest revision that can be read. A transaction that reads an older one fails.
	compacted int64
	// index is the number of the newest entry of the log that is in the state.
	index   uint64
	leases  map[int64]bool
	alarms  map[alarm]bool
	members map[uint64]bool
	guarded bool // users have to log in
}

// entry is the newest version of a key.
type entry struct {
	revision, lease int64
	at              int64 // where it is in the file
	size            uint32
	kv              *mvccpb.KeyValue // if it comes from the log
}

type alarm struct {
	member uint64
	what   pb.AlarmType
}

// firstRevision is that of an etcd to which nothing was written.
const firstRevision = 1

func newState(f io.ReaderAt) *state {
	return &state{
		file: f, entries: map[string]entry{}, revision: firstRevision,
		leases: map[int64]bool{}, alarms: map[alarm]bool{}, members: map[uint64]bool{},
	}
}

func newFiles(f *os.File, s *state) *Files {
	return &Files{file: f, state: s, keys: slices.Sorted(maps.Keys(s.entries))}
}

// List lists keys as a store does. It has the newest revision only.
func (f *Files) List(ctx context.Context, prefix string, o store.ListOptions) (store.Page, error) {
	switch rev := f.Revision(); {
	case o.Revision > rev:
		return store.Page{}, store.ErrFuture
	case o.Revision != 0 && o.Revision < rev:
		return store.Page{}, store.ErrCompacted
	}
	keys := f.keys[sort.SearchStrings(f.keys, max(prefix, o.From)):]
	keys = keys[:sort.Search(len(keys), func(i int) bool { return !strings.HasPrefix(keys[i], prefix) })]
	page := store.Page{Revision: f.Revision()}
	if o.Limit > 0 && len(keys) > o.Limit {
		page.More, page.Remaining = true, int64(len(keys)-o.Limit)
		keys = keys[:o.Limit]
	}
	page.Entries = make([]store.Entry, len(keys))
	for i, key := range keys {
		if err := ctx.Err(); err != nil {
			return store.Page{}, err
		}
		kv, err := f.state.load(f.state.entries[key])
		if err != nil {
			return store.Page{}, fmt.Errorf("%s: %w", f.file.Name(), err)
		}
		page.Entries[i] = store.Entry{Key: key, Value: kv.Value, Revision: store.Revision(kv.ModRevision)}
	}
	return page, nil
}
