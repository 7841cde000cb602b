package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/durable"
	"github.com/millrace/millrace/internal/filelock"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/memory"
)

// Options of a store. Dir is required.
type Options struct {
	// Dir is the directory. It is made if needed.
	Dir string
	// Memory bounds the changes that are remembered in memory.
	Memory memory.Options
	// SegmentBytes is the size of a segment. 0 means 16 MiB.
	SegmentBytes int64
	// SnapshotBytes is how much is appended to the log between two snapshots, or as much as the last snapshot has if
	// that is more. 0 means 64 MiB.
	SnapshotBytes int64
	// Begins lets the writes of a store that has nothing yet not wait for the disk until Begun is called. If the store ends
	// before that, it will have nothing again.
	Begins bool
	// History bounds the past that is kept on the disk.
	History History
	// Note returns what is kept beside a change, from the context of the call that makes it. nil means nothing.
	Note func(context.Context) []byte
	// Lost is told that the store has failed for good. nil means that nobody is.
	Lost func(error)
	// Logger gets what goes wrong aside of calls. nil means that nothing is logged.
	Logger *slog.Logger
}

// Store is a store.Store with a log on disk.
type Store struct {
	options Options
	dir     directory
	state   *memory.Store // what is on the disk, and nothing else
	lock    io.Closer
	codec   *codec   // for Open, and then for the committer
	segment *segment // for the committer
	begins  bool     // for Open, and then for the committer: see Options.Begins
	sources sources
	past    past
	views   pastViews

	decoders sync.Pool // of codecs, for readers of values

	appended      int64         // bytes since the last snapshot was begun; for the committer
	lastTime      time.Time     // of the last change; for the committer
	snapshotBytes atomic.Int64  // the size of the last snapshot
	grown         chan struct{} // holds a token when a snapshot is due

	stop    context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	work    chan struct{} // holds a token when there are writes; closed never
	waiting []*write      // guarded by mu
	ended   error         // guarded by mu: why no more writes are taken
	full    error         // guarded by mu: why writes that need space are refused
}

var _ store.Store = (*Store)(nil)

// Open opens the store of a directory, and makes one if there is none.
func Open(o Options) (*Store, error) {
	lock, err := lockDirectory(o.Dir)
	if err != nil {
		return nil, err
	}
	s, err := open(o, realDirectory(o.Dir), lock)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	s.run()
	return s, nil
}

func (s *Store) run() {
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.running.Go(func() { s.commit(ctx) })
	s.running.Go(func() { s.snapshots(ctx) })
}

// open opens a store that does not run yet.
func open(o Options, dir directory, lock io.Closer) (*Store, error) {
	o.SegmentBytes = max(cmp.Or(o.SegmentBytes, 16<<20), 4096)
	o.SnapshotBytes = cmp.Or(o.SnapshotBytes, 64<<20)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{
		options: o, dir: dir, lock: lock, codec: newCodec(), stop: func() {},
		work: make(chan struct{}, 1), grown: make(chan struct{}, 1),
	}
	o.Memory.Expired, o.Memory.Load = s.expired, s.load
	s.state = memory.New(o.Memory)
	err := s.begin()
	if err == nil {
		s.segment, err = s.start()
	}
	if err != nil {
		s.codec.close()
		return nil, errors.Join(fmt.Errorf("open the log in %s: %w", o.Dir, err), s.state.Close(), s.sources.close())
	}
	s.sources.add(s.segment.source)
	if rev, err := s.state.Revision(context.Background()); err == nil {
		s.past.begin(rev)
	}
	s.lastTime = s.lastChange()
	return s, nil
}

// lockDirectory makes a directory if needed and locks it for this process.
func lockDirectory(dir string) (*os.File, error) {
	if dir == "" {
		return nil, errors.New("no data directory is given")
	}
	if err := makeDirectory(dir); err != nil {
		return nil, fmt.Errorf("data directory cannot be made: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory %s cannot be written to: %w", dir, err)
	}
	err = filelock.Try(f)
	switch {
	case errors.Is(err, filelock.ErrLocked):
		return nil, errors.Join(fmt.Errorf("data directory %s is in use by another process: %w", dir, err), f.Close())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("data directory %s cannot be locked: %w", dir, err), f.Close())
	}
	return f, nil
}

// makeDirectory makes a directory and those above it, as far as there are none, and syncs their names.
func makeDirectory(dir string) error {
	if _, err := os.Stat(dir); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	above := filepath.Dir(dir)
	if err := makeDirectory(above); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return durable.SyncDirectory(above)
}

// expired deletes an entry that has expired, unless it has changed since. If that is refused, the state calls it again.
func (s *Store) expired(key string, rev store.Revision) {
	w := newWrite(key)
	w.Deleted, w.check = true, func() error { return s.state.CheckExpected(key, rev) }
	_ = s.enqueue(w) // a store that is closed deletes nothing
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key string, o store.GetOptions) (store.Entry, error) {
	return s.state.Get(ctx, key, o)
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, prefix string, o store.ListOptions) (store.Page, error) {
	page, err := s.state.List(ctx, prefix, o)
	if errors.Is(err, store.ErrCompacted) && s.keepsPast() {
		return s.listPast(ctx, prefix, o)
	}
	return page, err
}

// Watch implements store.Store.
func (s *Store) Watch(ctx context.Context, prefix string, after store.Revision, sink func(store.Batch) error) error {
	reached := func(b store.Batch) error {
		after = b.Revision
		return sink(b)
	}
	for {
		err := s.state.Watch(ctx, prefix, after, reached)
		if errors.Is(err, store.ErrCompacted) && s.keepsPast() {
			err = s.watchPast(ctx, prefix, after, reached)
		}
		if err != nil {
			return err
		}
	}
}

// Revision implements store.Store.
func (s *Store) Revision(ctx context.Context) (store.Revision, error) { return s.state.Revision(ctx) }

// Compact implements store.Store.
func (s *Store) Compact(ctx context.Context, rev store.Revision) error {
	return s.state.Compact(ctx, rev)
}

// Size implements store.Store: the bytes on the disk.
func (s *Store) Size(ctx context.Context) (int64, error) {
	if err := cmp.Or(ctx.Err(), s.state.Writable()); err != nil {
		return 0, err
	}
	names, err := s.dir.names()
	if err != nil {
		return 0, err
	}
	var bytes int64
	for _, name := range names {
		if n, err := s.dir.size(name); err == nil { // a file that has just been removed has no size
			bytes += n
		}
	}
	return bytes, nil
}

// Writable implements store.Store.
func (s *Store) Writable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.ended, s.full)
}

// troubles returns why no writes are taken any more, and why those that need space are not.
func (s *Store) troubles() (ended, full error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended, s.full
}

// Close implements store.Store.
func (s *Store) Close() error {
	s.mu.Lock()
	closed := errors.Is(s.ended, store.ErrClosed)
	s.ended = store.ErrClosed
	s.mu.Unlock()
	if closed {
		s.running.Wait()
		return nil
	}
	s.stop()
	s.running.Wait()
	s.codec.close()
	return errors.Join(s.state.Close(), s.sources.close(), s.lock.Close())
}

// timeOf returns when something expires that lives as long as given.
func timeOf(ttl time.Duration) time.Time {
	if ttl <= 0 {
		return time.Time{}
	}
	return time.Now().Add(ttl)
}
