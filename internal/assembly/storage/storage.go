// Package storage is all that is between a request and the disk: the store, encryption at rest, the watch cache, and
// the registry of the kinds.
package storage

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/millrace/millrace/internal/assembly"
	"github.com/millrace/millrace/internal/seam"
	"github.com/millrace/millrace/internal/server/admission/policies"
	"github.com/millrace/millrace/internal/server/datadir"
	"github.com/millrace/millrace/internal/server/note"
	"github.com/millrace/millrace/internal/server/ownership"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/builtin"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/etcd"
	"github.com/millrace/millrace/internal/server/store/journal"
	"github.com/millrace/millrace/internal/server/store/memory"
	"github.com/millrace/millrace/internal/server/watchcache"
)

const (
	// These limit the history beside the current state: in the store, which only the watch cache reads, and for each
	// kind in the watch cache. With 6 MiB for each kind, watchers that read nothing for two seconds of a burst got 410
	// Gone.
	historyBytes = 6 << 20
	windowBytes  = 16 << 20
	// formBytes limits the cached encoded answers of all kinds. A list that does not fit is encoded for each request,
	// which costs four times as much; an answer that no client requests again is dropped.
	formBytes = 96 << 20
)

// Options say where objects are kept, and how.
type Options struct {
	// Data is the directory of the log; empty keeps everything in memory. Etcd is asked instead if it has Endpoints.
	Data string
	Etcd etcd.Options
	// EncryptionFile is an EncryptionConfiguration; with ReloadEncryption it is read again when it changes.
	EncryptionFile   string
	ReloadEncryption bool
	// EventTTL is how long events are kept: for ever if negative, as long as their kind says if zero.
	EventTTL time.Duration
	// RuntimeConfig turns APIs off and on. Uncached names the resources without a watch cache. Window limits a
	// resource's history.
	RuntimeConfig map[string]string
	Uncached      []string
	Window        func(groupResource string) (events, bytes int)
	// History bounds the past that the log in Data keeps. SegmentBytes is the size of its files; zero is the default.
	History      journal.History
	SegmentBytes int64
	// CompactEvery is how long the store keeps history: for ever if negative.
	CompactEvery time.Duration
	Logger       *slog.Logger
}

// Storage has the objects of a cluster. Its fields exist from Start on.
type Storage struct {
	o Options
	// Registry has no plugins yet: the part after access plugs them in.
	Registry *registry.Registry
	Cache    *watchcache.Cache
	// Owners know who set which field; the registry tracks them.
	Owners *ownership.Owners
	// Store has the bytes as they are on disk, encrypted or not. Journal is the log, if that keeps them.
	Store   store.Store
	Journal *journal.Store
}

// New makes the part. Nothing is opened before Start.
func New(o Options) *Storage { return &Storage{o: o, Owners: &ownership.Owners{}} }

// Shared reports whether other servers may write to the same store.
func (s *Storage) Shared() bool { return len(s.o.Etcd.Endpoints) > 0 }

// Start opens the store, and reads its state into the watch cache.
func (s *Storage) Start(ctx context.Context, l *assembly.List) error {
	opened, err := s.open(ctx, l)
	if err != nil {
		return err
	}
	s.Store = seam.Wrap(ctx, opened)
	l.Opened("store", s.Store.Close)
	kept, err := s.encrypted(ctx, l)
	if err != nil {
		return err
	}
	s.Cache = watchcache.New(kept, watchcache.Options{Root: registry.Root, WindowBytes: windowBytes, FormBudget: formBytes, Logger: s.o.Logger})
	if err := s.makeRegistry(kept); err != nil {
		return err
	}
	l.Run("watch cache", s.Cache.Run)
	if every := s.o.CompactEvery; every >= 0 {
		l.Run("compaction", func(ctx context.Context) error { return store.RunCompaction(ctx, s.Store, every, s.Cache.Compacted) })
	}
	return s.wait(ctx)
}

// open opens the store that the options name.
func (s *Storage) open(ctx context.Context, l *assembly.List) (store.Store, error) {
	switch {
	case s.Shared():
		return etcd.Dial(ctx, s.o.Etcd)
	case s.o.Data == "":
		return memory.New(memory.Options{HistoryBytes: historyBytes}), nil
	}
	if err := datadir.TakeOver(ctx, s.o.Data, s.o.EventTTL, s.o.Logger); err != nil {
		return nil, err
	}
	return s.openJournal(datadir.Log(s.o.Data), l)
}

// openJournal opens the log. If its disk fails, the cluster fails.
func (s *Storage) openJournal(dir string, l *assembly.List) (store.Store, error) {
	lost := make(chan error, 1)
	opened, err := journal.Open(journal.Options{
		Dir: dir, SegmentBytes: s.o.SegmentBytes, Begins: true, Memory: memory.Options{HistoryBytes: historyBytes}, History: s.o.History, Note: note.Of,
		Lost: func(err error) { lost <- err }, Logger: s.o.Logger,
	})
	if err != nil {
		return nil, err
	}
	l.Run("journal", func(ctx context.Context) error {
		select {
		case err := <-lost:
			return err
		case <-ctx.Done():
			return nil
		}
	})
	s.Journal = opened
	return opened, nil
}

// Begun must be called before anybody is told of what was written: the first writes of a new log do not wait for the
// disk before that.
func (s *Storage) Begun(ctx context.Context) error {
	if s.Journal == nil {
		return nil
	}
	return s.Journal.Begun(ctx)
}

// Objects returns the number of all objects.
func (s *Storage) Objects() (n int) {
	for _, k := range s.Cache.Kinds() {
		n += k.Stats().Objects
	}
	return n
}

// Kinds makes the built-in kinds, as the options have them.
func (s *Storage) Kinds() ([]*resource.Kind, error) {
	kinds := builtin.Kinds()
	policies.Complete(kinds)
	keepEvents(kinds, s.o.EventTTL)
	return kinds, switchAPIs(kinds, s.o.RuntimeConfig, s.o.Logger)
}

// makeRegistry makes the registry of the built-in kinds.
func (s *Storage) makeRegistry(kept store.Store) error {
	kinds, err := s.Kinds()
	if err != nil {
		return err
	}
	catalogue, err := resource.NewCatalogue(kinds...)
	if err != nil {
		return err
	}
	uncached := map[string]bool{}
	for _, name := range s.o.Uncached {
		uncached[name] = true
	}
	s.Registry, err = registry.New(registry.Options{
		Store: kept, Cache: s.Cache, Catalogue: catalogue, Track: s.Owners, Uncached: uncached, Window: s.o.Window, Logger: s.o.Logger,
	})
	return err
}

// keepEvents sets how long events are kept. Zero leaves the default; a negative duration keeps them for ever.
func keepEvents(kinds []*resource.Kind, ttl time.Duration) {
	for _, k := range kinds {
		if ttl != 0 && k.Resource == "events" && k.Group == "" {
			k.TTL = max(ttl, 0)
		}
	}
}

// wait waits until the state of the store was read. It gives up if an etcd cluster stops answering.
func (s *Storage) wait(ctx context.Context) error {
	if timeout := s.o.Etcd.DialTimeout; s.Shared() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, fmt.Errorf("its state could not be read within %v: %w", timeout, store.ErrUnavailable))
		defer cancel()
	}
	if err := s.Cache.WaitReady(ctx); err != nil {
		return fmt.Errorf("wait for the first state of the store: %w", err)
	}
	return nil
}
