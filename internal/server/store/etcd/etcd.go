// Package etcd stores bytes in an etcd cluster, which it reaches through the network (Dial).
//
// It gives every guarantee of package store. Keys and values are stored unchanged, so that etcd's own tools can read
// them. No etcd server is part of it: package etcdfile reads the files of one, etcdtest runs one in tests.
//
// A caller may not assume that a write that failed with ErrUnavailable or with a context's error had no effect.
package etcd

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/server/store"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// query asks for the keys from start (inclusive) to end (exclusive).
type query struct {
	start, end []byte
	limit      int64
	rev        int64
	stale      bool
	uncounted  bool // the caller needs to know only whether there is more
}

type answer struct {
	kvs   []*mvccpb.KeyValue
	count int64 // the number of all keys in the range, whatever the limit
	rev   int64 // the newest revision
}

// Store is a store.Store in etcd.
type Store struct {
	cluster *remote
	root    string // prefix of every key
	leases  leases

	// background counts the goroutines that Close waits for.
	background sync.WaitGroup
	closed     chan struct{}
	closing    sync.Once
	closeErr   error

	progress progress
}

var _ store.Store = (*Store)(nil)

func newStore(cluster *remote, root string) *Store {
	s := &Store{cluster: cluster, root: root, leases: newLeases(), closed: make(chan struct{})}
	s.progress.poke = make(chan struct{}, 1)
	s.background.Go(s.followProgress)
	return s
}

// Revision implements store.Store.
func (s *Store) Revision(ctx context.Context) (store.Revision, error) {
	if err := s.checkUsable(ctx); err != nil {
		return 0, fmt.Errorf("revision: %w", err)
	}
	rev, err := s.cluster.revision(ctx)
	if err != nil {
		return 0, fmt.Errorf("revision: %w", s.explain(ctx, err))
	}
	s.progress.noteRevision(rev)
	return store.Revision(rev), nil
}

// Compact implements store.Store.
func (s *Store) Compact(ctx context.Context, rev store.Revision) error {
	if err := s.checkUsable(ctx); err != nil {
		return fmt.Errorf("compact at %d: %w", rev, err)
	}
	if err := s.cluster.compact(ctx, int64(rev)); err != nil {
		return fmt.Errorf("compact at %d: %w", rev, s.explain(ctx, err))
	}
	return nil
}

// Size implements store.Store: the size of etcd's database file, free pages included.
func (s *Store) Size(ctx context.Context) (int64, error) {
	if err := s.checkUsable(ctx); err != nil {
		return 0, fmt.Errorf("size: %w", err)
	}
	size, err := s.cluster.size(ctx)
	if err != nil {
		return 0, fmt.Errorf("size: %w", s.explain(ctx, err))
	}
	return size, nil
}

// Writable implements store.Store.
func (s *Store) Writable() error {
	if err := s.checkUsable(context.Background()); err != nil {
		return err
	}
	return s.cluster.writable()
}

// Close implements store.Store. It waits for everything that the store runs.
func (s *Store) Close() error {
	s.closing.Do(func() {
		close(s.closed)
		s.closeErr = s.cluster.close()
		s.background.Wait()
	})
	return s.closeErr
}

// checkUsable returns the error with which a call must fail before it starts, or nil.
func (s *Store) checkUsable(ctx context.Context) error {
	select {
	case <-s.closed:
		return store.ErrClosed
	default:
		return ctx.Err()
	}
}

// progress makes idle watches report how far they are. By itself etcd reports that only every ten minutes. A watch is
// asked for its progress when the store has reached a revision that the watch has not yet reported.
type progress struct {
	newest atomic.Int64
	poke   chan struct{}

	mu       sync.Mutex
	watchers map[*watcher]struct{} // guarded by mu
}

// If an event is on its way, the watch need not be asked. If a request for progress was not answered, it is sent again.
const (
	progressDelay = 5 * time.Millisecond
	progressRetry = 100 * time.Millisecond
)

// noteRevision records that the store has reached rev.
func (p *progress) noteRevision(rev int64) {
	for {
		old := p.newest.Load()
		if rev <= old {
			return
		}
		if p.newest.CompareAndSwap(old, rev) {
			p.wake()
			return
		}
	}
}

func (p *progress) wake() {
	select {
	case p.poke <- struct{}{}:
	default:
	}
}

func (p *progress) add(w *watcher) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watchers == nil {
		p.watchers = make(map[*watcher]struct{})
	}
	p.watchers[w] = struct{}{}
	p.wake()
}

func (p *progress) remove(w *watcher) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.watchers, w)
}

// ask asks the watches that lag for their progress, and says whether there are any.
func (p *progress) ask() (lagging bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	newest := p.newest.Load()
	for w := range p.watchers {
		if w.reached.Load() < newest {
			lagging = true
			w.request()
		}
	}
	return lagging
}

func (s *Store) followProgress() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-s.progress.poke:
		case <-s.closed:
			return
		}
		for delay, lagging := progressDelay, true; lagging; delay = progressRetry {
			timer.Reset(delay)
			select {
			case <-timer.C:
			case <-s.closed:
				return
			}
			lagging = s.progress.ask()
		}
	}
}
