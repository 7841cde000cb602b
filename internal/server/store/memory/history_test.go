package memory

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/server/store"
)

func write(t *testing.T, s *Store, key string, n int, value []byte) store.Revision {
	t.Helper()
	rev, err := s.Create(t.Context(), key, value, 0)
	for i := 1; err == nil && i < n; i++ {
		rev, err = s.Update(t.Context(), key, value, rev, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

func TestHistoryIsBoundedInEventsWithoutCompaction(t *testing.T) {
	s := New(Options{HistoryEvents: 10})
	rev := write(t, s, "/a", 100, []byte("x"))
	if n := len(s.history.changes); n != 11 {
		t.Errorf("%d changes are remembered", n)
	}
	if _, err := s.List(t.Context(), "/", store.ListOptions{Revision: rev - 9}); err != nil {
		t.Errorf("list inside the bound: %v", err)
	}
	if _, err := s.List(t.Context(), "/", store.ListOptions{Revision: rev - 10}); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("list outside the bound: %v", err)
	}
	err := s.Watch(t.Context(), "/", rev-11, func(store.Batch) error { return nil })
	if !errors.Is(err, store.ErrCompacted) {
		t.Errorf("watch outside the bound: %v", err)
	}
}

func TestHistoryIsBoundedInBytesButKeepsTheNewestChanges(t *testing.T) {
	s := New(Options{HistoryBytes: 50_000})
	rev := write(t, s, "/a", 100, make([]byte, 1000))
	if s.history.bytes > 50_000 || len(s.history.changes) < 48 {
		t.Errorf("%d bytes in %d changes", s.history.bytes, len(s.history.changes))
	}
	rev, err := s.Update(t.Context(), "/a", make([]byte, 100_000), rev, 0)
	if err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	err = s.Watch(t.Context(), "/", rev-minChanges, func(b store.Batch) error {
		if len(b.Events) != minChanges || b.Events[minChanges-1].Revision != rev {
			t.Errorf("batch is %d events up to %d", len(b.Events), b.Revision)
		}
		return enough
	})
	if err != enough {
		t.Error(err)
	}
}

func TestWatcherOutsideTheWindowGetsAnErrorAndKeepsNoHistoryAlive(t *testing.T) {
	s := New(Options{HistoryEvents: 10})
	placed, release, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		ended <- s.Watch(t.Context(), "/", 0, func(store.Batch) error {
			close(placed)
			<-release
			return nil
		})
	}()
	<-placed // the watcher stands on the first change now
	freed := make(chan struct{})
	rev := write(t, s, "/gone", 1, nil)
	runtime.AddCleanup(s.history.at(rev).now, func(c chan struct{}) { close(c) }, freed)
	write(t, s, "/a", 100, nil)
	if err := deleteKey(t, s, "/gone"); err != nil {
		t.Fatal(err)
	}
	write(t, s, "/b", 100, nil)
	runtime.GC()
	<-freed
	close(release)
	if err := <-ended; !errors.Is(err, store.ErrCompacted) {
		t.Errorf("watch: %v", err)
	}
}

func deleteKey(t *testing.T, s *Store, key string) error {
	e, err := s.Get(t.Context(), key, store.GetOptions{})
	if err != nil {
		return err
	}
	_, err = s.Delete(t.Context(), key, e.Revision)
	return err
}

func TestPagesOfAnOldStateAreMadeOnce(t *testing.T) {
	s := New(Options{})
	for i := range 100 {
		write(t, s, fmt.Sprintf("/a/%02d", i), 1, nil)
	}
	first, err := s.List(t.Context(), "/", store.ListOptions{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	write(t, s, "/b", 1000, nil)
	for i := range 2 {
		o := store.ListOptions{Limit: 10, Revision: first.Revision, From: "/a/10"}
		if _, err := s.List(t.Context(), "/", o); err != nil {
			t.Fatal(err)
		}
		if n := len(s.past.views); n != 1 {
			t.Errorf("%d views after %d pages", n, i+2)
		}
	}
	if err := s.Compact(t.Context(), first.Revision+1); err != nil {
		t.Fatal(err)
	}
	if n := len(s.past.views); n != 0 {
		t.Errorf("%d views after the compaction", n)
	}
}

func TestEntriesExpireAtTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		defer s.Close()
		ctx := t.Context()
		for i := range 100 {
			if _, err := s.Create(ctx, fmt.Sprintf("/%d", i), nil, time.Duration(100-i)*time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		for minute := range 100 {
			time.Sleep(time.Minute)
			synctest.Wait()
			page, err := s.List(ctx, "/", store.ListOptions{})
			if err != nil || len(page.Entries) != 99-minute {
				t.Fatalf("%d entries after %d minutes, %v", len(page.Entries), minute+1, err)
			}
		}
		if len(s.expiry.byKey) > 0 || len(s.expiry.expiryHeap) > 0 {
			t.Error("something is left of expired entries")
		}
	})
}

func TestClosedStoreExpiresNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		if _, err := s.Create(t.Context(), "/a", nil, time.Minute); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if s.present.Len() != 1 {
			t.Error("the entry is gone")
		}
	})
}

func TestProgressIsCoalescedForAnIdlePrefix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		ctx, cancel := context.WithCancel(t.Context())
		var batches []store.Batch
		ended := make(chan error)
		go func() {
			ended <- s.Watch(ctx, "/idle/", 0, func(b store.Batch) error {
				batches = append(batches, b)
				time.Sleep(time.Second) // writers are faster
				return nil
			})
		}()
		synctest.Wait()
		rev := write(t, s, "/busy", 1000, nil)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := len(batches); n != 2 || batches[1].Revision != rev || len(batches[1].Events) != 0 {
			t.Errorf("batches are %v", batches)
		}
		cancel()
		<-ended
	})
}

func TestAHundredStoresFitInOneProcess(t *testing.T) {
	before := runtime.NumGoroutine()
	var stores []*Store
	for range 100 {
		s := New(Options{})
		write(t, s, "/a", 10, []byte("x"))
		stores = append(stores, s)
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines, %d before", after, before)
	}
	for _, s := range stores {
		if rev, err := s.Revision(t.Context()); err != nil || rev != 11 {
			t.Errorf("revision is %d, %v", rev, err)
		}
	}
}
