package store_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/faults"
	"github.com/millrace/millrace/internal/server/store/memory"
)

func TestCompactionKeepsTheLastInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		var told store.Revision
		go func() {
			ended <- store.RunCompaction(ctx, s, 0, func(rev store.Revision) { told = rev })
		}()
		const minute = time.Minute
		start := time.Now()
		var revs []store.Revision // one a minute, half a minute after each compaction
		for range 20 {
			time.Sleep(minute / 2)
			rev, err := s.Create(ctx, "/at/"+time.Since(start).String(), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			revs = append(revs, rev)
			time.Sleep(minute / 2)
			synctest.Wait()
			for i, rev := range revs {
				age := time.Since(start) - time.Duration(i)*minute
				_, err := s.List(ctx, "/", store.ListOptions{Revision: rev})
				if age <= 5*minute && err != nil {
					t.Errorf("forgotten after %v: %v", age, err)
				}
				if expired := errors.Is(err, store.ErrCompacted); expired != (rev < told) {
					t.Errorf("revision %d: %v, and the caller was told that everything before %d is gone", rev, err, told)
				}
				if age > 11*minute && !errors.Is(err, store.ErrCompacted) {
					t.Errorf("remembered after %v: %v", age, err)
				}
			}
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestCompactionSurvivesFailuresAndEndsWithTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := faults.Wrap(memory.New(memory.Options{}))
		s.Fail(faults.Revision|faults.Compact, store.ErrUnavailable, 3)
		ended := make(chan error)
		go func() { ended <- store.RunCompaction(t.Context(), s, time.Minute, func(store.Revision) {}) }()
		rev, err := s.Create(t.Context(), "/a", nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = s.Update(t.Context(), "/a", nil, rev, 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if _, err := s.List(t.Context(), "/", store.ListOptions{Revision: rev}); !errors.Is(err, store.ErrCompacted) {
			t.Errorf("list: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, store.ErrClosed) {
			t.Error(err)
		}
	})
}
