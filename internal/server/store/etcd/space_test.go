package etcd

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/server/store"
)

func TestFullQuotaIsReportedAndClearedWhenThereIsSpaceAgain(t *testing.T) {
	t.Parallel()
	s, err := Embed(t.Context(), EmbedOptions{Dir: t.TempDir(), QuotaBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, value := t.Context(), bytes.Repeat([]byte("x"), 1<<20)
	revs := make(map[string]store.Revision)
	for i := 0; ; i++ {
		key := fmt.Sprintf("/%d", i)
		rev, err := s.Create(ctx, key, value, 0)
		if errors.Is(err, store.ErrNoSpace) {
			break
		}
		if err != nil || i > 100 {
			t.Fatalf("after %d values: %v", i, err)
		}
		revs[key] = rev
	}
	if _, err := s.Create(ctx, "/expiring", value, time.Hour); !errors.Is(err, store.ErrNoSpace) {
		t.Errorf("create with a ttl: %v", err)
	}
	if _, err := s.Get(ctx, "/0", store.GetOptions{}); err != nil {
		t.Errorf("reading without space: %v", err)
	}
	for key, rev := range revs {
		if _, err = s.Delete(ctx, key, rev); err != nil {
			t.Fatalf("deleting without space: %v", err)
		}
	}
	for deadline := time.Now().Add(2 * time.Minute); ; {
		_, err := s.Create(ctx, "/again", value, 0)
		if err == nil {
			break
		}
		if !errors.Is(err, store.ErrNoSpace) || time.Now().After(deadline) {
			t.Fatalf("there is still no space: %v", err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

func TestWritesAreRefusedBeforeTheDiskIsFull(t *testing.T) {
	t.Parallel()
	s := mustEmbed(t, t.TempDir())
	defer s.Close()
	ctx := t.Context()
	rev, err := s.Create(ctx, "/a", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	e := s.engine.(*embedded)
	e.diskFull.Store(true)
	if _, err := s.Update(ctx, "/a", nil, rev, 0); !errors.Is(err, store.ErrNoSpace) {
		t.Errorf("update: %v", err)
	}
	if _, err := s.Create(ctx, "/b", nil, time.Hour); !errors.Is(err, store.ErrNoSpace) {
		t.Errorf("create: %v", err)
	}
	if _, err := s.Delete(ctx, "/a", rev); err != nil {
		t.Errorf("delete: %v", err)
	}
	if err := s.Writable(); !errors.Is(err, store.ErrNoSpace) {
		t.Errorf("writable: %v", err)
	}
	e.checkDisk()
	if _, err := s.Create(ctx, "/b", nil, 0); err != nil {
		t.Errorf("create with space: %v", err)
	}
}

func TestReserveIsMeasuredOnTheDisk(t *testing.T) {
	t.Parallel()
	s, err := Embed(t.Context(), EmbedOptions{Dir: t.TempDir(), ReserveBytes: 1 << 60})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Create(t.Context(), "/a", nil, 0); !errors.Is(err, store.ErrNoSpace) {
		t.Errorf("create: %v", err)
	}
}

func TestEtcdThatGivesUpIsStartedAgain(t *testing.T) {
	t.Parallel()
	s := mustEmbed(t, t.TempDir())
	defer s.Close()
	rev, err := s.Create(t.Context(), "/a", []byte("kept"), 0)
	if err != nil {
		t.Fatal(err)
	}
	why := errors.New("the disk is on fire")
	for range 3 {
		ended, placed := make(chan error, 1), make(chan struct{}, 1)
		go func() {
			ended <- s.Watch(t.Context(), "/", rev, func(store.Batch) error { placed <- struct{}{}; return nil })
		}()
		<-placed
		s.engine.(*embedded).member().fail(why)
		if err := <-ended; !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, why) {
			t.Errorf("watch: %v", err)
		}
		for deadline := time.Now().Add(2 * time.Minute); ; {
			next, err := s.Update(t.Context(), "/a", []byte("kept"), rev, 0)
			if err == nil {
				rev = next
				break
			}
			if !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrConflict) || time.Now().After(deadline) {
				t.Fatalf("the store does not recover: %v", err)
			}
			rev = revisionOf(t, s, rev) // a write that failed may have taken effect
			time.Sleep(10 * time.Millisecond)
		}
	}
	if err := s.Writable(); err != nil {
		t.Errorf("writable: %v", err)
	}
}

// revisionOf returns the revision of /a, or the given one while the store does not answer.
func revisionOf(t *testing.T, s *Store, known store.Revision) store.Revision {
	e, err := s.Get(t.Context(), "/a", store.GetOptions{})
	if err != nil {
		return known
	}
	return e.Revision
}
