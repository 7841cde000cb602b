package journal

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/server/store"
)

// state returns the values of all keys at a revision.
func stateOf(t *testing.T, s store.Store, rev store.Revision) map[string]string {
	t.Helper()
	page, err := s.List(t.Context(), "/", store.ListOptions{Revision: rev})
	if err != nil {
		t.Fatalf("list at %d: %v", rev, err)
	}
	out := map[string]string{}
	for _, e := range page.Entries {
		out[e.Key] = fmt.Sprint(e.Revision, " ", string(e.Value))
	}
	return out
}

// noLife is of entries that live for ever.
func noLife(string) time.Duration { return 0 }

// change makes a random change.
func changeAny(ctx context.Context, s *Store, random *rand.Rand) error {
	key := fmt.Sprint("/", random.IntN(8))
	e, err := s.Get(ctx, key, store.GetOptions{})
	switch {
	case errors.Is(err, store.ErrNotFound):
		_, err = s.Create(ctx, key, fmt.Append(nil, random.Uint64()), 0)
	case err == nil && random.IntN(4) == 0:
		_, err = s.Delete(ctx, key, e.Revision)
	case err == nil:
		_, err = s.Update(ctx, key, fmt.Append(nil, random.Uint64()), e.Revision, 0)
	}
	if errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrNotFound) {
		return nil // somebody else was quicker
	}
	return err
}

func TestAForkAtAnyRevisionIsWhatTheStoreWas(t *testing.T) {
	o := Options{Dir: t.TempDir(), SegmentBytes: 4096, SnapshotBytes: 6000, History: Everything}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var writers sync.WaitGroup // their writes are groups
	for i := range 8 {
		writers.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			for range 60 {
				if err := changeAny(context.Background(), s, random); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	now, err := s.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for rev := now; rev > 1; rev-- {
		dir := filepath.Join(t.TempDir(), "fork")
		if err := s.Fork(t.Context(), dir, rev, noLife); err != nil {
			t.Fatalf("fork at %d: %v", rev, err)
		}
		fork, err := Open(Options{Dir: dir, SegmentBytes: 4096, SnapshotBytes: 6000})
		if err != nil {
			t.Fatalf("open the fork at %d: %v", rev, err)
		}
		if got, want := stateOf(t, fork, 0), stateOf(t, s, rev); !reflect.DeepEqual(got, want) {
			t.Fatalf("the fork at %d has %v, want %v", rev, got, want)
		}
		if at, err := fork.Revision(t.Context()); err != nil || at != rev {
			t.Fatalf("the revision of the fork at %d is %d, %v", rev, at, err)
		}
		if err := changeAny(t.Context(), fork, rand.New(rand.NewPCG(2, 2))); err != nil {
			t.Fatal(err)
		}
		if err := fork.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Fork(t.Context(), filepath.Join(t.TempDir(), "fork"), now+1, noLife); !errors.Is(err, store.ErrFuture) {
		t.Errorf("a fork in the future: %v", err)
	}
	if err := s.Fork(t.Context(), o.Dir, now, noLife); err == nil {
		t.Error("a store was forked into itself")
	}
}

func TestAForkWhileSnapshotsAreMadeHasAllThatWasAcknowledged(t *testing.T) {
	s, err := Open(Options{Dir: t.TempDir(), SegmentBytes: 4096, SnapshotBytes: 6000})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	random := rand.New(rand.NewPCG(3, 3))
	for i := range 100 {
		for range 20 {
			if err := changeAny(t.Context(), s, random); err != nil {
				t.Fatal(err)
			}
		}
		now, err := s.Revision(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "fork")
		if err := s.Fork(t.Context(), dir, now, noLife); err != nil {
			t.Fatalf("fork %d: %v", i, err)
		}
		fork, err := Open(Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := stateOf(t, fork, 0), stateOf(t, s, 0); !reflect.DeepEqual(got, want) {
			t.Fatalf("fork %d has %v, want %v", i, got, want)
		}
		if err := fork.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
